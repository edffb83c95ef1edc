"""Names of cooldown slots: one action on one entity, with or without data, as a mark only its maker can take back."""

import os

from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.records import Mark
from dupeproof.keys.canonical import canonical
from dupeproof.keys.names import check_key, check_namespace, key_digest


class SlotNames:
    def __init__(self, namespace: str) -> None:
        # No namespace of a user's can hold a slash, so slots and marks never meet.
        self._digest = key_digest(f"cooldown/{check_namespace(namespace)}")

    def mark(self, entity: object, action: object, within: Duration, data: object) -> Mark:
        window = milliseconds(within, name="within")
        return Mark(self.digest(entity, action, data), window, token=os.urandom(8))

    def digest(self, entity: object, action: object, data: object) -> bytes:
        parts: list[object] = [check_key(entity), check_key(action)]
        return self._digest(canonical(parts if data is None else [*parts, data]).decode())
