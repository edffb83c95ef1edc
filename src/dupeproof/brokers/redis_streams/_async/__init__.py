"""The source of the sync side; `tools/twins.py` writes `_sync` from here."""
