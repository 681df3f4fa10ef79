"""Bots of the Knowledge-Bot Service in LangChain."""
