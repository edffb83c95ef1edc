# Written by tools/twins.py from src/dupeproof/cleanup/_async/__init__.py; change that file instead.
"""The source of the sync purger; `tools/twins.py` writes `_sync` from here."""
