"""The ledger's tables, and how a database comes to hold them."""

from typing import Any

import sqlalchemy as sa

from knowledge_bot.ingest.ledger.entries import LedgerError

VERSION = 1

# All names begin alike, since a PostgreSQL database is often shared with other programs.
metadata: sa.MetaData = sa.MetaData()

about: sa.Table = sa.Table(
    "kbot_ledger", metadata, sa.Column("version", sa.Integer, nullable=False)
)

owners: sa.Table = sa.Table(
    "kbot_owners",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("machine", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("started", sa.Text, nullable=False),
    sa.Column("lease_until", sa.Float(53), nullable=False),
)

sources: sa.Table = sa.Table(
    "kbot_sources",
    metadata,
    # A hash of service, collections and key, which may be longer than an index of PostgreSQL takes.
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("collections", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),  # of the content that `state` is about
    sa.Column("source_id", sa.Text),  # the source created last ...
    sa.Column("source_name", sa.Text),  # ... its name ...
    sa.Column("source_digest", sa.Text),  # ... and the digest of its content
    sa.Column("signature", sa.Text),  # size, times and inode of the file that `digest` is of
    sa.Column("owner", sa.String(32), nullable=False),  # the run that wrote the row last
    sa.Column("version", sa.Integer, nullable=False),  # a claim compares and swaps it
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Float(53), nullable=False),
)
# Nearly all rows are `created`, and nobody asks for those.
_unsettled = sources.c.state != "created"
sa.Index(
    "kbot_sources_unsettled",
    sources.c.state,
    sqlite_where=_unsettled,
    postgresql_where=_unsettled,
)

superseded: sa.Table = sa.Table(
    "kbot_superseded",
    metadata,
    sa.Column("source_id", sa.Text, primary_key=True),
    sa.Column("replaced_by", sa.Text),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("collections", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("superseded_at", sa.Float(53), nullable=False),
)


def check(connection: Any, told: str, *, shared: bool) -> bool:
    """Tell whether a database holds a ledger; False where it holds none yet.

    Args:
        connection: an open connection.
        told: the ledger's address for messages.
        shared: whether other programs' tables may stand beside the ledger's.

    Raises:
        LedgerError: it holds something else, or a ledger of a newer version.
    """
    tables = sa.inspect(connection).get_table_names()
    if about.name not in tables:
        if tables and not shared:
            raise LedgerError(
                f"{told} is not a ledger: it is a database of another program, with the table "
                f"{tables[0]!r}. Nothing was written to it; name another file"
            )
        return False
    version = connection.execute(sa.select(about.c.version)).scalar()
    if version is not None and version > VERSION:
        raise LedgerError(
            f"{told} was written by a newer knowledge-bot (ledger version {version}, this one "
            f"knows {VERSION}). Nothing was written to it; update knowledge-bot"
        )
    return version is not None


def create(connection: Any) -> None:
    """Create the tables inside the connection's transaction."""
    metadata.create_all(connection)
    if connection.execute(sa.select(about.c.version)).scalar() is None:
        connection.execute(about.insert().values(version=VERSION))
