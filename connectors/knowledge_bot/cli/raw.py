"""A client for `kbot api`: the same rules of delivery, and answers as they come."""

from knowledge_bot._client import Client
from knowledge_bot._endpoints import Request, endpoint


class RawClient(Client):
    """A `Client` that sends any path below the base URL."""

    @endpoint
    @staticmethod
    def get(path: str) -> Request[bytes]:
        """Return the body of a GET's answer."""
        return Request("GET", path, bytes)

    @endpoint
    @staticmethod
    def post(path: str, body: bytes) -> Request[bytes]:
        """Send a JSON body; return the answer's."""
        return Request("POST", path, bytes, body)
