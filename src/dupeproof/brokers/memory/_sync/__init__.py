# Written by tools/twins.py from src/dupeproof/brokers/memory/_async/__init__.py; change that file instead.
"""The source of the sync memory broker; `tools/twins.py` writes `_sync` from here."""
