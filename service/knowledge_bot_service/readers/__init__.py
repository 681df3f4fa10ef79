"""Reading documents into passages and terms; the child process that does it."""

from typing import Final

READER: Final = 1
"""The version of the readers. One that reads what an older one could not is a new version: what
failed before is asked for again at the next start."""
