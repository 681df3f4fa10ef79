"""`kbot`, the command line of the Knowledge-Bot Service."""

from knowledge_bot.cli.kbot import main

__all__ = ["main"]
