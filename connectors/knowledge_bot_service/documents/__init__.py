"""Readers, one for each kind of document: each turns a file's content into text.

Those of PDF, DOCX, HTML and XML run in a child process with limits of time and memory (`python -m
knowledge_bot_service.documents`), which `knowledge_bot_service.extract` starts. Plain text,
Markdown and CSV are read in the caller's own process: their work is bounded by the text's length.
"""
