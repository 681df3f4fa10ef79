"""Finding passages by their words, and how well a passage fits."""
