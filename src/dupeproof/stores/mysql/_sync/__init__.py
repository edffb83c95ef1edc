# Written by tools/twins.py from src/dupeproof/stores/mysql/_async/__init__.py; change that file instead.
"""The source of the sync tables; `tools/twins.py` writes `_sync` from here."""
