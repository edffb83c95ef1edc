# Written by tools/twins.py from src/dupeproof/core/_async/__init__.py; change that file instead.
"""The source of the sync twins; `tools/twins.py` writes `_sync` from here."""
