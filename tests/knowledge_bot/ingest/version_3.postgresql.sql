-- A ledger of version 3, as knowledge-bot 0.2.0 made it: items of every state, two of them claimed
-- by a worker that was killed, sources that were superseded, items that are gone, pages and rates.
-- Only names of machines and times were changed.
CREATE TABLE kbot_items (
    number bigint NOT NULL,
    id bytea NOT NULL,
    scope integer NOT NULL,
    origin integer,
    key text NOT NULL,
    name text,
    kind text NOT NULL,
    location text,
    state text NOT NULL,
    digest bytea,
    pending bytea,
    version text,
    source_id text,
    source_name text,
    run bigint NOT NULL,
    revision integer NOT NULL,
    attempts integer NOT NULL,
    error text,
    updated_at integer NOT NULL,
    gone_at integer
);
ALTER TABLE kbot_items ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME kbot_items_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE kbot_ledger (
    version integer NOT NULL
);
CREATE TABLE kbot_origins (
    number bigint NOT NULL,
    scope integer NOT NULL,
    name text NOT NULL
);
ALTER TABLE kbot_origins ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME kbot_origins_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE kbot_pages (
    id bytea NOT NULL,
    known bytea NOT NULL
);
CREATE TABLE kbot_rates (
    service text NOT NULL,
    free_at double precision NOT NULL
);
CREATE TABLE kbot_runs (
    run bigint NOT NULL,
    scope integer NOT NULL,
    machine text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    started text NOT NULL,
    lease_until double precision NOT NULL
);
CREATE TABLE kbot_scopes (
    number bigint NOT NULL,
    service text NOT NULL,
    collections text NOT NULL
);
ALTER TABLE kbot_scopes ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME kbot_scopes_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE kbot_superseded (
    source_id text NOT NULL,
    replaced_by text,
    scope integer NOT NULL,
    key text NOT NULL,
    name text NOT NULL,
    superseded_at integer NOT NULL
);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (1, '\x14c11de9835e91359b22d194f7c989e5', 1, 1, 'stays', NULL, 'text', NULL, 'created', '\x448449b829b29bc050a1d8bf74c962f7', NULL, NULL, 'src_100', NULL, 1882680993162153936, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (9, '\xa2ecc6c06e5b600f6df3728cbda53891', 1, 1, 'bucket/object', 'object', 'object', NULL, 'created', '\xf810a46b4312a103e065192cf6f7b939', NULL, 'etag', 'src_104', NULL, 1882680993162153936, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (11, '\x4620fb214238961bffa52d246451cdd9', 1, 1, 'https://pages.test/page', 'page', 'webpage', NULL, 'created', '\x652614d084314c5ee70e38bb86cedeaa', NULL, 'v1', 'src_105', NULL, 1882680993162153936, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (19, '\xe8cb9626fdfb0da01d4019231a143221', 1, NULL, 'kept 3', NULL, 'text', NULL, 'created', '\xd879496ac56577685ea1b0adaf6f7108', NULL, NULL, 'src_109', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (21, '\x7d53bda4872c7eb44ad9429bd090ce15', 1, NULL, 'kept 4', NULL, 'text', NULL, 'created', '\x4da7eab9f7c7cf7e36b4d18df756d74c', NULL, NULL, 'src_110', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (23, '\x6115e376ae7431a62a070fecbf70539b', 1, NULL, 'kept 5', NULL, 'text', NULL, 'created', '\x04f49429137f97fb40647bed0fae18ce', NULL, NULL, 'src_111', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (25, '\x93e2197034046906e3325bd0357da4d5', 1, NULL, 'kept 6', NULL, 'text', NULL, 'created', '\x02edbca348f4ed5e8e65b239bfc9f961', NULL, NULL, 'src_112', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (27, '\x1eb378e5dca51e16dc82b3845ee54cf0', 1, NULL, 'kept 7', NULL, 'text', NULL, 'created', '\x6b72ac2b4c95fa283bfb7a17ef9df9d1', NULL, NULL, 'src_113', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (29, '\xfbb61d6932de77cc4767b464aa56b399', 1, NULL, 'kept 8', NULL, 'text', NULL, 'created', '\xe87a005ee186d3785769005c37e276c6', NULL, NULL, 'src_114', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (31, '\xd9a35b844c10a70170d8b663ff1234bd', 1, NULL, 'kept 9', NULL, 'text', NULL, 'created', '\x24990702575eab454da60e08fd0e496f', NULL, NULL, 'src_115', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (33, '\xdee3b050f786e1d8109b2a851cd63e88', 1, NULL, 'kept 10', NULL, 'text', NULL, 'created', '\xc8480d2eb61657c762b0661be1a18cfa', NULL, NULL, 'src_116', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (35, '\x8b3319342cda2169787db4060a4e2686', 1, NULL, 'kept 11', NULL, 'text', NULL, 'created', '\x4aaef9b11c583d457e02eeb4978bf90b', NULL, NULL, 'src_117', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (37, '\xf97f7918d0dff92e27d0a6d6ca53b44f', 1, NULL, 'kept 12', NULL, 'text', NULL, 'created', '\x2fdb942b47e5b969ff3e8bd6b1073d4e', NULL, NULL, 'src_118', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (39, '\xc6a88a99839cf4d13f9a7e652f1a07ff', 1, NULL, 'kept 13', NULL, 'text', NULL, 'created', '\xaf3faf182b3d0f6e8ab578808233e34f', NULL, NULL, 'src_119', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (41, '\xec8d35de63e46c24c4eb2860abc7c32e', 1, NULL, 'kept 14', NULL, 'text', NULL, 'created', '\x73cc8261f7e1cb69af91ee89b4c4fef0', NULL, NULL, 'src_120', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (43, '\xee23f16ffa17f54b1ddd09ac0d4ae304', 1, NULL, 'kept 15', NULL, 'text', NULL, 'created', '\x3bf86217fabb6e1bf948d4f945046981', NULL, NULL, 'src_121', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (45, '\x7adce0a457f685af122d0893820c4e70', 1, NULL, 'kept 16', NULL, 'text', NULL, 'created', '\x8b3aa2e532b7284cda1ed40ade606d12', NULL, NULL, 'src_122', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (47, '\x1dd77b941a2261c2f0b494c6c0215645', 1, NULL, 'kept 17', NULL, 'text', NULL, 'created', '\xe6b21147d59fdef84a6188ad2cbfb9de', NULL, NULL, 'src_123', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (49, '\x6303093badcae2eb9823b8840137dd8c', 1, NULL, 'kept 18', NULL, 'text', NULL, 'created', '\xfda3a8b8efbdc47d045da02a5ef11542', NULL, NULL, 'src_124', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (51, '\xb47a42ecf02a9ca5f9bbfbef0e1aef07', 1, NULL, 'kept 19', NULL, 'text', NULL, 'created', '\x860f8c307b663105cbc3523c3bc46823', NULL, NULL, 'src_125', NULL, 1882680993272781995, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (53, '\x4a5b01c8b36704d9fc95bd6c7c272e93', 2, NULL, 'stays', NULL, 'text', NULL, 'created', '\x448449b829b29bc050a1d8bf74c962f7', NULL, NULL, 'src_126', NULL, 1882680993327308649, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (55, '\x315801de5622358c6ffa8d28dca12c9b', 1, NULL, 'was refused, then sent', NULL, 'text', NULL, 'created', '\xb32d66fad56f2b74314b1ef3069a20d8', NULL, NULL, 'src_127', NULL, 1882680993349421712, 3, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (3, '\x2ac8e56c3514118c99886dbbcb602ca3', 1, 1, 'changed', NULL, 'text', NULL, 'created', '\xe82b6db393ba8923961073187d689472', NULL, NULL, 'src_200', NULL, 1882680993679834177, 6, 2, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (5, '\xe00ec5d9f337c81def2bd0f72de981e9', 1, 1, 'vanishes', NULL, 'text', NULL, 'created', '\x250b79d9978b132126eff19d2d4eb96d', NULL, NULL, 'src_102', NULL, 1882680993162153936, 4, 1, NULL, 1700000009, 1700000009);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (7, '\x436e83badc7eb057d6c47e87e6e3e2c5', 1, 1, 'gone and lost', NULL, 'text', NULL, 'created', '\xaab64859773d12a9919bbd5ad72cc49b', NULL, NULL, 'src_103', NULL, 1882680993162153936, 4, 1, NULL, 1700000009, 1700000009);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (59, '\x5c1dd3b8d18ba9f114930911ea492c5f', 1, NULL, 'refused', NULL, 'text', NULL, 'refused', NULL, '\xb987562b0004c58bac240effb08debb9', NULL, NULL, NULL, 1882680993755204027, 3, 1, 'POST /sources/write to https://service.test/public/v1 was answered with 400 [test]: no such language. Correct the request; sent again as it is, it will be refused again. The service did not act on it.', 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (17, '\x271c866034f9f0352a7d352e016678c5', 1, NULL, 'kept 2', NULL, 'text', NULL, 'refused', '\xb35ecb6a9ee1a09f833700f98846fc74', '\xb5a55c2d859ccc0a76205f3dc8670896', NULL, 'src_108', 'kept 2', 1882680993782129244, 6, 2, 'POST /sources/write to https://service.test/public/v1 was answered with 400 [test]: too long. Correct the request; sent again as it is, it will be refused again. The service did not act on it.', 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (63, '\xd438cb9bedc146e406d55a274e41a7e9', 1, NULL, 'unknown', NULL, 'text', NULL, 'unknown', NULL, '\xd4d47befa388bbaa55f5eed62db51ea0', NULL, NULL, NULL, 1882680993805691216, 3, 1, 'POST /sources/write to https://service.test/public/v1: the connection broke before a whole answer: reset by the test. The service may have acted on it, so it was not sent again: look there before sending it once more.', 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (13, '\xaaac9a07d04ca797239e74b199e6a794', 1, NULL, 'kept 0', NULL, 'text', NULL, 'unknown', '\x107ca3a74f4377a1dbcd6a4b796164cc', '\xb92d13bbe02db7ca7686a8e7b854de49', NULL, 'src_106', 'kept 0', 1882680993834749438, 6, 2, 'POST /sources/write to https://service.test/public/v1: the connection broke before a whole answer: reset by the test. The service may have acted on it, so it was not sent again: look there before sending it once more.', 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (67, '\x2fbc41372a9ae84972768a0a1260cbf3', 1, NULL, 'settled', NULL, 'text', NULL, 'created', '\x2d711642b726b04401627ca9fbac32f5', NULL, NULL, 'src_77', NULL, 1882680993864706456, 4, 1, NULL, 1700000009, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (70, '\x616e9e65911395414eba176db67fc037', 1, NULL, 'claimed, new', NULL, 'text', NULL, 'claimed', NULL, '\x0237183b45cc8f4d9a568532cd6adc2f', NULL, NULL, NULL, 1882680994167094834, 1, 1, NULL, 1700000010, NULL);
INSERT INTO kbot_items OVERRIDING SYSTEM VALUE VALUES (15, '\x6733dcffa5d7c28d8da0ce9d1485a24d', 1, NULL, 'kept 1', NULL, 'text', NULL, 'claimed', '\x28de9143ac9aa86e9ea2f2c9d1432875', '\x8b828d923e75cc5c12ef083aa8008a21', NULL, 'src_107', 'kept 1', 1882680994167094834, 4, 2, NULL, 1700000010, NULL);
INSERT INTO kbot_ledger VALUES (3);
INSERT INTO kbot_origins OVERRIDING SYSTEM VALUE VALUES (1, 1, 'handbook');
INSERT INTO kbot_pages VALUES ('\x00112233445566778899aabbccddeeff', '\x80a0');
INSERT INTO kbot_rates VALUES ('https://service.test/public/v1', 1700000000.25);
INSERT INTO kbot_runs VALUES (1882680994167094834, 1, 'another machine', 'worker-1', 4711, '42', 1700000060.5);
INSERT INTO kbot_scopes OVERRIDING SYSTEM VALUE VALUES (1, 'https://service.test/public/v1', 'col_1');
INSERT INTO kbot_scopes OVERRIDING SYSTEM VALUE VALUES (2, 'https://service.test/public/v1', 'col_2');
INSERT INTO kbot_superseded VALUES ('src_101', 'src_200', 1, 'changed', 'changed', 1700000009);
SELECT pg_catalog.setval('kbot_items_number_seq', 71, true);
SELECT pg_catalog.setval('kbot_origins_number_seq', 1, true);
SELECT pg_catalog.setval('kbot_scopes_number_seq', 2, true);
ALTER TABLE ONLY kbot_items
    ADD CONSTRAINT kbot_items_id_key UNIQUE (id);
ALTER TABLE ONLY kbot_items
    ADD CONSTRAINT kbot_items_pkey PRIMARY KEY (number);
ALTER TABLE ONLY kbot_origins
    ADD CONSTRAINT kbot_origins_pkey PRIMARY KEY (number);
ALTER TABLE ONLY kbot_origins
    ADD CONSTRAINT kbot_origins_scope_name_key UNIQUE (scope, name);
ALTER TABLE ONLY kbot_pages
    ADD CONSTRAINT kbot_pages_pkey PRIMARY KEY (id);
ALTER TABLE ONLY kbot_rates
    ADD CONSTRAINT kbot_rates_pkey PRIMARY KEY (service);
ALTER TABLE ONLY kbot_runs
    ADD CONSTRAINT kbot_runs_pkey PRIMARY KEY (run);
ALTER TABLE ONLY kbot_scopes
    ADD CONSTRAINT kbot_scopes_pkey PRIMARY KEY (number);
ALTER TABLE ONLY kbot_scopes
    ADD CONSTRAINT kbot_scopes_service_collections_key UNIQUE (service, collections);
ALTER TABLE ONLY kbot_superseded
    ADD CONSTRAINT kbot_superseded_pkey PRIMARY KEY (source_id);
CREATE INDEX kbot_items_digest ON kbot_items USING btree (digest) WHERE (digest IS NOT NULL);
CREATE INDEX kbot_items_gone ON kbot_items USING btree (gone_at) WHERE (gone_at IS NOT NULL);
CREATE INDEX kbot_items_origin ON kbot_items USING btree (origin) WHERE (origin IS NOT NULL);
CREATE INDEX kbot_items_unsettled ON kbot_items USING btree (state) WHERE (state <> 'created'::text);
