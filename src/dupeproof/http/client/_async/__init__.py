"""The source of the sync transport; `tools/twins.py` writes `_sync` from here."""
