# Written by tools/twins.py from src/dupeproof/stores/redis/_async/__init__.py; change that file instead.
"""The source of the sync Redis store; `tools/twins.py` writes `_sync` from here."""
