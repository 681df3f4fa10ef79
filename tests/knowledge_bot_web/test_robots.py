"""robots.txt: the public expectations of RFC 9309, and what they leave out."""

import json
import time
from pathlib import Path

import pytest

from knowledge_bot_web import robots
from knowledge_bot_web.robots import Robots

SPECIFICATION = json.loads(
    (Path(__file__).parent / "robots_spec" / "expectations.json").read_text(encoding="ascii")
)


def test_every_expectation_of_google_s_specification_test_is_met():
    failed, count = [], 0
    for name, text, expectations in SPECIFICATION:
        for agent, url, allowed in expectations:
            count += 1
            if Robots(text.encode("latin-1"), agent).allows(url) is not allowed:
                failed.append((name, text, agent, url, allowed))
    assert failed == []
    assert count == 400


def test_the_delay_is_that_of_our_group_and_sitemaps_are_everybody_s():
    text = (
        b"User-agent: *\nCrawl-delay: 9\nDisallow: /a\n"
        b"User-agent: knowledge-bot\nCrawl-delay: 1.5\nSitemap: https://h.example/s.xml#x\n"
        b"Sitemap: /relative.xml\n"
    )
    ours = Robots(text, "knowledge-bot")
    assert ours.delay == 1.5
    assert ours.sitemaps == ["https://h.example/s.xml", "/relative.xml"]
    assert ours.allows("https://h.example/a")
    assert Robots(text, "another").delay == 9


@pytest.mark.parametrize("said", ["", "soon", "-1", "1e9", "nan", "inf", "1 second"])
def test_a_delay_that_is_no_number_is_none(said):
    assert Robots(f"User-agent: *\nCrawl-delay: {said}\n".encode(), "a").delay is None


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_byte_order_mark_is_understood(encoding):
    text = "User-agent: *\nDisallow: /ä\n"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    found = Robots((mark + text).encode(encoding), "a")
    assert not found.allows("https://h.example/%C3%A4")
    assert found.allows("https://h.example/b")


def test_of_ten_megabytes_the_first_500_kib_count_and_no_half_line():
    rule = b"Disallow: /forbidden-" + b"x" * 77 + b"\n"
    text = b"User-agent: *\n" + rule * 6000
    text = text[: robots.LARGEST - 15] + b"\nDisallow: /a/long/one\nDisallow: /beyond\n"
    found = Robots(text + rule * 100_000, "a")
    assert len(text) > robots.LARGEST
    assert found.allows("https://h.example/a/long/one")
    assert found.allows("https://h.example/a/l")  # as far as the line was read
    assert found.allows("https://h.example/beyond")
    assert not found.allows("https://h.example/forbidden-" + "x" * 77)


def test_no_pattern_makes_matching_slow():
    text = b"User-agent: *\n" + b"".join(
        b"Disallow: /%s%d$\n" % (b"*a" * 2000, n) for n in range(90)
    )
    found = Robots(text, "a")
    began = time.process_time()
    assert found.allows("https://h.example/" + "a" * 20_000)
    assert time.process_time() - began < 5  # a regular expression would need years
