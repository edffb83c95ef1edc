"""The source of the sync twins; `tools/twins.py` writes `_sync` from here."""
