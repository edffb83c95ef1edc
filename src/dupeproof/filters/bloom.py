"""Bloom: ids of one process in about 1.8 bytes each, at 0.1 % of new ones taken for known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from dupeproof.filters import snapshots
from dupeproof.filters.bloom_bits import error_rate as current_error_rate
from dupeproof.filters.bloom_bits import make_bits, probe, restored_bits, size
from dupeproof.filters.local import LocalFilter
from dupeproof.filters.options import MOST_IDS, Acceptance, check_error_rate, whole
from dupeproof.filters.stats import FilterStats


class Bloom(LocalFilter):
    """A Bloom filter for `capacity` ids. It never forgets; for ids that may be forgotten there is `RotatingBloom`.

    The same ids set the same bits in every process. `add` and `in` answer "surely new" or "probably known"; only with
    `accept_errors=True` does it drop messages by itself, in `seen` and `fresh`.
    """

    def __init__(self, capacity: int, error_rate: float = 0.001, *, accept_errors: bool = False) -> None:
        self._capacity = whole(capacity, "capacity", most=MOST_IDS)
        self._error_rate = check_error_rate(error_rate)
        super().__init__(Acceptance(accept_errors, error_rate))
        self._bits = make_bits(capacity, error_rate)
        self._added = 0

    def stats(self) -> FilterStats:
        return FilterStats(
            capacity=self._capacity,
            added=self._added,
            bytes=size(self._bits),
            stated_error_rate=self._error_rate,
            estimated_error_rate=current_error_rate(self._bits),
        )

    def snapshot(self, path: Path | str) -> None:
        """Write it to a file. A crash on the way leaves the file that was there before."""
        with self._lock:
            part = snapshots.SavedPart(
                bytes(self._bits.get_bytes()), self._bits.hashes(), probe(self._bits), self._added
            )
        snapshots.write(path, snapshots.Saved("Bloom", self._capacity, self._error_rate, [part]))

    @classmethod
    def restore(cls, path: Path | str, *, accept_errors: bool = False) -> Self:
        """The filter as it was written by `snapshot`, in this process or another."""
        saved = snapshots.read(path, "Bloom")
        [part] = saved.parts
        bloom = cls(saved.capacity, saved.error_rate, accept_errors=accept_errors)
        bloom._bits, bloom._added = restored_bits(part.bits, part.hashes), part.added
        if probe(bloom._bits) != part.probe:
            raise snapshots.other_hashes(path)
        return bloom

    def _add(self, texts: Sequence[str]) -> list[bool]:
        with self._lock:
            known = self._bits.add_str_if_not_contains
            answers = [not known(text) for text in texts]
            self._added += answers.count(True)
        self._over.look("A Bloom filter", self._added, self._capacity)
        return answers

    def _might_have(self, texts: Sequence[str]) -> list[bool]:
        with self._lock:
            answers: list[bool] = self._bits.contains_str_batch(texts)
        return answers
