"""Who is a duplicate of whom: ids, content ids, fingerprints and key extraction. No I/O."""

from dupeproof.keys.canonical import canonical
from dupeproof.keys.fingerprints import VOLATILE, digest, fingerprint
from dupeproof.keys.ids import content_id, new_id
from dupeproof.keys.names import check_key, check_namespace, key_digest

__all__ = [
    "VOLATILE",
    "canonical",
    "check_key",
    "check_namespace",
    "content_id",
    "digest",
    "fingerprint",
    "key_digest",
    "new_id",
]
