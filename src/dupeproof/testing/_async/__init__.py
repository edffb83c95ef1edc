"""The source of the sync conformance suite; `tools/twins.py` writes `_sync` from here."""
