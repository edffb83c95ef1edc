"""The source of the sync tables; `tools/twins.py` writes `_sync` from here."""
