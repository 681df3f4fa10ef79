"""The service without HTTP: takes sources and questions, and has the sources read."""
