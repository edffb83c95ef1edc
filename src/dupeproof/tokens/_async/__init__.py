"""The source of the sync tokens; `tools/twins.py` writes `_sync` from here."""
