"""The assets: a collection of a service is `knowledgebot://host/collection`."""
