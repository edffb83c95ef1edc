# Written by tools/twins.py from src/dupeproof/outbox/_async/__init__.py; change that file instead.
"""The source of the sync outbox and relay; `tools/twins.py` writes `_sync` from here."""
