"""The source of the sync filters; `tools/twins.py` writes `_sync` from here."""
