"""The source of the sync adapters; `tools/twins.py` writes `_sync` from here."""
