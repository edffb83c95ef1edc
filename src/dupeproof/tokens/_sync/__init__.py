# Written by tools/twins.py from src/dupeproof/tokens/_async/__init__.py; change that file instead.
"""The source of the sync tokens; `tools/twins.py` writes `_sync` from here."""
