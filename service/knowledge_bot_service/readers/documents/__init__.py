"""Readers, one for each kind of document: each turns a file's content into text.

They run in a process with limits of time and memory (`knowledge_bot_service.readers.reading`).
"""
