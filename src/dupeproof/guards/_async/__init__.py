"""The source of the sync guards; `tools/twins.py` writes `_sync` from here."""
