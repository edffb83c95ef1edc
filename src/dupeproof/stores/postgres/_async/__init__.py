"""The source of the sync PostgreSQL store; `tools/twins.py` writes `_sync` from here."""
