# Written by tools/twins.py from src/dupeproof/brokers/kafka/_async/__init__.py; change that file instead.
"""The source of the sync side; `tools/twins.py` writes `_sync` from here, except where the driver decides."""
