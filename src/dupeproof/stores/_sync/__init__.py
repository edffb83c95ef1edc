# Written by tools/twins.py from src/dupeproof/stores/_async/__init__.py; change that file instead.
"""What the async stores share; `_sync` is its counterpart."""
