# Written by tools/twins.py from src/dupeproof/sql/_async/__init__.py; change that file instead.
"""The source of the sync adapters; `tools/twins.py` writes `_sync` from here."""
