"""The service over HTTP: endpoints, who may use them, what they take, and the page for people."""
