"""The API core: a typed, delivery-aware client of the Knowledge-Bot Service.

Importing this package loads neither httpx nor pydantic; a name is loaded when it is first used.
"""

__version__ = "0.1.0"
