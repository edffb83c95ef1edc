# Written by tools/twins.py from src/dupeproof/filters/_async/__init__.py; change that file instead.
"""The source of the sync filters; `tools/twins.py` writes `_sync` from here."""
