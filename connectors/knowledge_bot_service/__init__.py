"""The embedded Knowledge-Bot Service: the whole interface, for real, in one process on one SQLite file."""
