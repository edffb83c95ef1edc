"""Who is a duplicate of whom: ids, content ids, fingerprints and key extraction. No I/O."""

from dupeproof.keys.canonical import canonical

__all__ = ["canonical"]
