"""The source of the sync memory broker; `tools/twins.py` writes `_sync` from here."""
