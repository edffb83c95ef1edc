"""The source of the sync inbox; `tools/twins.py` writes `_sync` from here."""
