# Written by tools/twins.py from src/dupeproof/inbox/_async/__init__.py; change that file instead.
"""The source of the sync inbox; `tools/twins.py` writes `_sync` from here."""
