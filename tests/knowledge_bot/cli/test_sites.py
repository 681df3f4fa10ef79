"""`kbot ingest site`, for a site over a real socket."""

import pytest

from page_server import answer, serving

PAGES = {
    "/": b"<title>Home</title><p>Welcome.<a href=/hours>Hours</a><a href=/shop/a>Shop</a>",
    "/hours": b"<p>We open at nine.<a href=/>Home</a><a href=/old>Old</a>",
    "/shop/a": b"<p>Tools.",
}


@pytest.fixture
def site():
    with serving() as server:
        server.answers |= {path: answer(body) for path, body in PAGES.items()}
        server.answers["/robots.txt"] = answer(
            b"User-agent: *\nDisallow: /private/\n", kind="text/plain"
        )
        server.answers["/sitemap.xml"] = answer(status="404 Not Found")
        server.answers["/old"] = answer(status="404 Not Found")
        yield server


@pytest.fixture
def service_with_sync(standing_in):
    return standing_in(collections=["col_1"], extensions={"sources", "sync"})


def ingest(run, site, *options):
    return run("ingest", "site", site.url(), "--requests", "1000", *options)


def test_a_dry_run_names_the_pages_that_would_be_sent(run, service_with_sync, site):
    done = ingest(run, site, "--dry-run", "--exclude", "shop/")
    assert done.exit_code == 0, done.stderr
    shown = done.stdout + done.stderr
    assert site.url("/hours") in shown
    assert "/shop/a" not in shown


def test_a_second_run_sends_what_changed_alone(run, service_with_sync, site):
    first = ingest(run, site)
    assert first.exit_code == 0, first.stderr
    assert "created\t3" in first.stdout
    site.answers["/hours"] = answer(b"<p>We open at ten.<a href=/>Home</a>")
    again = ingest(run, site)
    assert "replaced\t1" in again.stdout
    assert "unchanged\t2" in again.stdout


@pytest.mark.parametrize("kind", ["sitemap", "feed", "urls"])
def test_a_list_is_compared_by_the_pages_main_texts(run, service_with_sync, site, tmp_path, kind):
    listed = {
        "sitemap": "<urlset><url><loc>{}</loc></url></urlset>",
        "feed": '<rss version="2.0"><channel><item><link>{}</link></item></channel></rss>',
        "urls": "{}\n",
    }
    (tmp_path / "list").write_text(listed[kind].format(site.url("/hours")))
    command = ("ingest", kind, tmp_path / "list", "--compare", "content", "--requests", "1000")
    assert "created\t1" in run(*command).stdout
    assert "unchanged\t1" in run(*command).stdout
    site.answers["/hours"] = answer(b"<p>We open at ten.<a href=/>Home</a>")
    assert "replaced\t1" in run(*command).stdout
