"""What a filter holds and how far its answers can be trusted, as it stands."""

from msgspec import Struct


class FilterStats(Struct, frozen=True, kw_only=True):
    capacity: int
    """Ids for which the stated error rate holds."""
    added: int
    """Ids it holds now."""
    bytes: int
    stated_error_rate: float
    """The share of new ids taken for duplicates when it is full, as asked for."""
    estimated_error_rate: float
    """The same share now, from what is set in it."""
    generations: int = 1
    """Parts of different age it is made of."""

    @property
    def fill(self) -> float:
        """1.0 is full. Beyond, the error rate grows past the stated one."""
        return self.added / self.capacity
