"""The source of the sync outbox and relay; `tools/twins.py` writes `_sync` from here."""
