"""Bots of the Knowledge-Bot Service in LlamaIndex."""
