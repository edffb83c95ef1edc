"""HTTP: endpoints that may be called again, and a client that calls again safely."""
