"""Reading documents into passages and terms; the child process that does it."""
