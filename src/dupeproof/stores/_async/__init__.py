"""What the async stores share; `_sync` is its counterpart."""
