"""Where claims and marks are kept. `open_store` and `open_async_store` choose one by URL."""

from dupeproof.stores.factory import open_async_store, open_store

__all__ = ["open_async_store", "open_store"]
