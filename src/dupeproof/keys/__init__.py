"""Who is a duplicate of whom: ids, content ids, fingerprints and key extraction. No I/O."""

from dupeproof.keys.canonical import canonical
from dupeproof.keys.ids import content_id, new_id
from dupeproof.keys.names import check_key, check_namespace, key_digest

__all__ = ["canonical", "check_key", "check_namespace", "content_id", "key_digest", "new_id"]
