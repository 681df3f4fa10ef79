"""What a program needs that meets strangers on the web.

The embedded service and the sources of ingestion share it, and it imports neither of them: guarded
fetching (`fetching`, `targets`, `networks`, `inflating`), the text and the main part of a page
(`charsets`, `html`), and a site's rules for crawlers (`robots`). Nothing is loaded here, since each
user needs a part of it.
"""
