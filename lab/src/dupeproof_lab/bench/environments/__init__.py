"""Where candidates run: each store as something to start, to empty, to weigh and to stop."""
