"""The source of the sync brokers; `tools/twins.py` writes `_sync` from here."""
