"""What a guard of numbered messages is given, checked and turned into what stores decide on."""

from collections.abc import Iterable

from dupeproof.core.sequences import LARGEST, Number, Verdict
from dupeproof.errors import KeyInvalid, SequenceRefused
from dupeproof.filters.options import whole
from dupeproof.keys.names import Key, check_key, check_namespace, key_digest

MAX_GAP = 65_536
_WHY = {
    Verdict.FENCED: "a newer epoch of this producer has been met, so this message comes from a former one; drop it",
    Verdict.TOO_OLD: "the number is further behind the highest one than gap=, so whether it came before is no "
    "longer known; look at the message, or allow a larger gap",
}


class Numbering:
    """From (producer, epoch, sequence) to a `Number`."""

    def __init__(self, namespace: str, gap: int) -> None:
        self._digest = key_digest(check_namespace(namespace))
        self._gap = whole(gap, "gap", most=MAX_GAP)

    def key(self, producer: Key) -> bytes:
        return self._digest(check_key(producer))

    def numbers(self, items: Iterable[tuple[Key, int, int]]) -> list[Number]:
        return [
            Number(self.key(producer), _whole(epoch, "epoch"), _whole(sequence, "sequence"), self._gap)
            for producer, epoch, sequence in items
        ]


def is_first(verdict: Verdict) -> bool:
    """Whether to process the message; raises where that is not the question."""
    if verdict in _WHY:
        raise SequenceRefused(_WHY[verdict], verdict=verdict)
    return verdict is Verdict.FRESH


def _whole(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    shown = value if isinstance(value, int) else f"a {type(value).__qualname__}"
    raise KeyInvalid(f"the {name} must be a whole number from 0 to 2**53 - 1, got {shown}")
