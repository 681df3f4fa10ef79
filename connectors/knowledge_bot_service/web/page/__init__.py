"""The page for people: one static page, and the list of sources that the interface does not have.

The page itself holds no data, so it is served without the key; it asks a person for the key and
sends it with every call, as any client does.
"""

from knowledge_bot_service.web.page.routes import router

__all__ = ["router"]
