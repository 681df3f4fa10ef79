"""The page on proxies: its recipes run, with TLS and under a path of its own."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from ssl import create_default_context

import httpx
import pytest
import trustme

from knowledge_bot import Client
from serve_command import key_in, serving
from waiting import free_port, listens, until

PAGE = (Path(__file__).parents[3] / "docs/service/proxies.md").read_text("utf-8")


@pytest.fixture(params=["nginx", "caddy"])
def proxied(request, tmp_path):
    """A service behind a proxy: its address through that, its key, and whom to trust."""
    program = shutil.which(request.param) or shutil.which(request.param, path="/usr/sbin")
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    for number, blob in enumerate(certificate.cert_chain_pems):
        blob.write_to_path(tmp_path / "bots.pem", append=number > 0)
    certificate.private_key_pem.write_to_path(tmp_path / "bots.key")
    context = create_default_context()
    authority.configure_trust(context)
    port = free_port()
    with serving(tmp_path) as (base_url, printed, _):
        prepare = nginx if request.param == "nginx" else caddy
        arguments = prepare(tmp_path, port, base_url.removesuffix("/public/v1"))
        environment = os.environ | {
            "XDG_DATA_HOME": f"{tmp_path}",
            "XDG_CONFIG_HOME": f"{tmp_path}",
        }
        with (
            (tmp_path / "errors").open("wb") as errors,
            subprocess.Popen([program, *arguments], env=environment, stderr=errors) as proxy,
        ):
            try:
                assert until(lambda: listens(port)), (tmp_path / "errors").read_text()
                yield f"https://localhost:{port}/bots", key_in(printed), context
            finally:
                proxy.terminate()


def recipe(language):
    """The page's configuration for a proxy."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found


def nginx(folder, port, service):
    """Write nginx's recipe for these addresses; returns its arguments."""
    server = (
        recipe("nginx")
        .replace("listen 443", f"listen 127.0.0.1:{port}")
        .replace("/etc/ssl/bots.example.org", f"{folder}/bots")
        .replace("http://127.0.0.1:8700", service)
    )
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\n"
        f"error_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{server}}}\n"
    )
    return ["-p", f"{folder}", "-c", f"{folder}/nginx.conf", "-e", "stderr"]


def caddy(folder, port, service):
    """Write Caddy's recipe for these addresses, with a certificate that is there."""
    site = (
        recipe("caddyfile")
        .replace(
            "bots.example.org {",
            f"localhost:{port} {{\n    tls {folder}/bots.pem {folder}/bots.key",
        )
        .replace("127.0.0.1:8700", service.removeprefix("http://"))
    )
    options = "{\n    admin off\n    auto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(f"{options}{site}")
    return ["run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


def test_a_service_works_under_a_path_and_behind_tls(proxied, tmp_path):
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
        # The proxy's own redirect stays where it is asked.
        assert http.get(address).headers["Location"] == "/bots/"
        # Who is not the proxy's neighbour cannot say that he is somebody else.
        http.get(f"{address}/public/v1/bots", headers={"X-Forwarded-For": "192.0.2.7"})
    logged = (tmp_path / "printed.txt").read_text()
    assert "192.0.2.7" not in logged
