"""Addresses as they stand in the documents of others."""

from urllib.parse import urlsplit


def is_web_address(address: str) -> bool:
    """Tell whether this is an `http(s)://` address with a host."""
    try:
        parts = urlsplit(address)
    except ValueError:  # such as half of an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
