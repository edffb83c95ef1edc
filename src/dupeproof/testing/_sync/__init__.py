# Written by tools/twins.py from src/dupeproof/testing/_async/__init__.py; change that file instead.
"""The source of the sync conformance suite; `tools/twins.py` writes `_sync` from here."""
