"""The page on proxies: its recipe for nginx runs, with TLS and under a path of its own."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from ssl import SSLContext, create_default_context

import httpx
import pytest
import trustme

from knowledge_bot import Client
from serve_command import key_in, serving

PAGE = Path(__file__).parents[2] / "docs/service/proxies.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
(RECIPE,) = re.findall(r"^```nginx\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed"),
]


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[str, str, SSLContext]]:
    """A service behind nginx: its address through the proxy, its key, and whom to trust."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    for number, blob in enumerate(certificate.cert_chain_pems):
        blob.write_to_path(tmp_path / "bots.pem", append=number > 0)
    certificate.private_key_pem.write_to_path(tmp_path / "bots.key")
    context = create_default_context()
    authority.configure_trust(context)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with serving(tmp_path, "--trusted-proxy", "127.0.0.1/32") as (base_url, printed, _):
        recipe = (
            RECIPE.replace("listen 443", f"listen 127.0.0.1:{port}")
            .replace("/etc/ssl/bots.example.org", f"{tmp_path}/bots")
            .replace("http://127.0.0.1:8700", base_url.removesuffix("/public/v1"))
        )
        paths = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"daemon off;\nmaster_process off;\npid {tmp_path}/nginx.pid;\n"
            f"error_log {tmp_path}/nginx-errors;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{paths}{recipe}}}\n"
        )
        assert NGINX is not None
        with subprocess.Popen([NGINX, "-p", tmp_path, "-c", tmp_path / "nginx.conf"]) as nginx:
            try:
                deadline = time.monotonic() + 20
                while socket.socket().connect_ex(("127.0.0.1", port)):
                    assert time.monotonic() < deadline
                    assert nginx.poll() is None, (tmp_path / "nginx-errors").read_text()
                    time.sleep(0.02)
                yield f"https://localhost:{port}/bots", key_in(printed), context
            finally:
                nginx.terminate()


def test_a_service_works_under_a_path_and_behind_tls(
    proxied: tuple[str, str, SSLContext], tmp_path: Path
) -> None:
    address, key, context = proxied
    with Client(key, f"{address}/public/v1", verify=context) as client:
        client.create_text_source(
            name="Hours", collections=["col_default"], content="The library opens at nine."
        )
        with (tmp_path / "large.txt").open("wb") as large:
            large.write(b"Nothing of note. " * 200_000)
        with (tmp_path / "large.txt").open("rb") as large:
            client.upload_source(name="Large", collections=["col_default"], file=large)
        asked = client.send_message(bot_id="bot_default", content="When does the library open?")
        assert "nine" in asked.answer
    with httpx.Client(verify=context, headers={"X-API-KEY": key}) as http:
        page = http.get(f"{address}/")
        for path in re.findall(r'(?:src|href)="(?!data:)([^"]+)"', page.text):
            assert http.get(str(page.url.join(path))).status_code == 200, path
        assert http.get(f"{address}/healthz").status_code == 200
        assert http.get(f"{address}/metrics").status_code == 404
        # A redirect would lead out of the prefix.
        assert http.get(f"{address}/public/v1/bots/").status_code == 404
        # nginx's own redirect stays where it is asked.
        assert http.get(address).headers["Location"] == "/bots/"
        # Who is not the proxy's neighbour cannot say that he is somebody else.
        http.get(f"{address}/public/v1/bots", headers={"X-Forwarded-For": "192.0.2.7"})
    logged = (tmp_path / "printed.txt").read_text()
    assert "192.0.2.7" not in logged
