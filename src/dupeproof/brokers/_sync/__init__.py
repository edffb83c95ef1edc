# Written by tools/twins.py from src/dupeproof/brokers/_async/__init__.py; change that file instead.
"""The source of the sync brokers; `tools/twins.py` writes `_sync` from here."""
