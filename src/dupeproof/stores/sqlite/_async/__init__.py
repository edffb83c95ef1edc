"""The source of the sync modules; `tools/twins.py` writes `_sync` from here."""
