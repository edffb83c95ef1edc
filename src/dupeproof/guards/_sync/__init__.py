# Written by tools/twins.py from src/dupeproof/guards/_async/__init__.py; change that file instead.
"""The source of the sync guards; `tools/twins.py` writes `_sync` from here."""
