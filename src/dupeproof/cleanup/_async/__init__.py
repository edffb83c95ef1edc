"""The source of the sync purger; `tools/twins.py` writes `_sync` from here."""
