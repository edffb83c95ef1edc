# Written by tools/twins.py from src/dupeproof/stores/postgres/_async/__init__.py; change that file instead.
"""The source of the sync PostgreSQL store; `tools/twins.py` writes `_sync` from here."""
