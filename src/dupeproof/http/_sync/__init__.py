# Written by tools/twins.py from src/dupeproof/http/_async/__init__.py; change that file instead.
"""The source of the sync exchange; `tools/twins.py` writes `_sync` from here."""
