# Written by tools/twins.py from src/dupeproof/stores/sqlite/_async/__init__.py; change that file instead.
"""The source of the sync modules; `tools/twins.py` writes `_sync` from here."""
