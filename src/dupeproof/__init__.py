"""Make the effect happen once: deduplication, idempotency and exactly-once effects."""

__version__ = "0.1.0"
