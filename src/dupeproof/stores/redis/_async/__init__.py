"""The source of the sync Redis store; `tools/twins.py` writes `_sync` from here."""
