"""The source of the sync exchange; `tools/twins.py` writes `_sync` from here."""
