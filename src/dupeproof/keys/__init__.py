"""Who is a duplicate of whom: ids, content ids, fingerprints and key extraction. No I/O."""

from dupeproof.keys.arguments import KeyOf, KeySpec, bound_arguments, compile_key
from dupeproof.keys.canonical import canonical
from dupeproof.keys.fingerprints import VOLATILE, digest, fingerprint
from dupeproof.keys.ids import content_id, new_id
from dupeproof.keys.message_ids import from_amqp, from_cloudevent, from_headers, from_kafka, kafka_position
from dupeproof.keys.names import check_key, check_namespace, key_digest

__all__ = [
    "VOLATILE",
    "KeyOf",
    "KeySpec",
    "bound_arguments",
    "canonical",
    "check_key",
    "check_namespace",
    "compile_key",
    "content_id",
    "digest",
    "fingerprint",
    "from_amqp",
    "from_cloudevent",
    "from_headers",
    "from_kafka",
    "kafka_position",
    "key_digest",
    "new_id",
]
