"""A handler whose module cannot be imported."""

raise LookupError("no such setting")
