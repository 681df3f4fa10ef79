"""The rules of `from_site` as a Scrapy spider; `other_crawlers.py` runs it where Scrapy is.

Scrapy brings its own parser, decoding, redirects, robots.txt matcher, filter of what was seen and
count of the depth. What it has no rule for is added here: sitemaps, canonical addresses, and what
pages ask of crawlers. An address is cleaned by the project's own function.
"""

import re

import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.utils.gz import gunzip
from scrapy.utils.sitemap import Sitemap, sitemap_urls_from_robots

from knowledge_bot.ingest.sources._addresses import cleaned
from knowledge_bot.ingest.sources._site import _NO_PAGE

OURS = re.compile(r"robots|knowledge-bot", re.IGNORECASE)


class TrapSpider(scrapy.Spider):
    name = "traps"

    async def start(self):
        yield scrapy.Request(f"{self.root}/", self.parse_page)
        yield scrapy.Request(f"{self.root}/robots.txt", self.parse_robots, priority=9)

    def parse_robots(self, response):
        for address in sitemap_urls_from_robots(response.text):
            yield scrapy.Request(address, self.parse_sitemap, priority=9)

    def parse_sitemap(self, response):
        content = response.body if response.body[:1] == b"<" else gunzip(response.body)
        found = Sitemap(content)
        for entry in found:
            if found.type == "sitemapindex":
                address = response.urljoin(entry["loc"])
                yield scrapy.Request(address, self.parse_sitemap, meta={"depth": 0}, priority=9)
            else:
                yield from self.follow(response.urljoin(entry["loc"]), depth=0)

    def parse_page(self, response):
        if not isinstance(response, scrapy.http.HtmlResponse):
            return
        for link in response.css("link[rel=canonical]::attr(href)").getall():
            # A copy is as deep as what it is a copy of.
            address = response.urljoin(link)
            yield from self.follow(address, depth=response.meta.get("depth", 0) - 1)
        for header in response.headers.getlist("Link"):
            if found := re.search(rb"<([^>]*)>;\s*rel=\"canonical\"", header):
                yield from self.follow(response.urljoin(found[1].decode()))
        if not self.asks_not_to_follow(response):
            for link in LinkExtractor(deny_extensions=(), unique=True).extract_links(response):
                if not link.nofollow:
                    yield from self.follow(link.url)

    def asks_not_to_follow(self, response):
        said = [
            meta.attrib.get("content", "").lower()
            for meta in response.css("meta[name]")
            if OURS.fullmatch(meta.attrib["name"])
        ]
        for header in response.headers.getlist("X-Robots-Tag"):
            agents = re.split(r"([\w-]+): ", header.decode().lower())
            said.append(agents[0])
            for agent, directives in zip(agents[1::2], agents[2::2], strict=True):
                if agent == "knowledge-bot" or "_" in agent:
                    said.append(directives)
        return bool(re.search("nofollow|none", " ".join(said)))

    def follow(self, link, depth=None):
        address = cleaned(link)
        if address and address.startswith(self.root) and not _NO_PAGE.search(address):
            meta = {} if depth is None else {"depth": depth}
            yield scrapy.Request(address, self.parse_page, meta=meta)
