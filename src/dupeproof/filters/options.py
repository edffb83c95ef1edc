"""The arguments filters have in common, checked in one place."""

from dupeproof.core.events import logger
from dupeproof.errors import ConfigError

MOST_IDS = 1_000_000_000


def whole(value: object, name: str, *, most: int) -> int:
    """A whole number from 1 to `most`."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    raise ConfigError(f"{name} must be a whole number from 1 to {most:,}; got {value!r}")


def check_error_rate(value: object) -> float:
    if isinstance(value, float) and 1e-6 <= value <= 0.5:
        return value
    raise ConfigError(
        f"error_rate must be a fraction from 0.000001 to 0.5, such as 0.001 for 0.1 %; got {value!r}"
    )


class Acceptance:
    """Whether the user has accepted, in so many words, that new messages are dropped at the stated rate."""

    def __init__(self, accept_errors: bool, error_rate: float) -> None:
        if not isinstance(accept_errors, bool):
            raise ConfigError(f"accept_errors must be True or False; got {accept_errors!r}")
        self._accepted = accept_errors
        self._error_rate = error_rate

    def check(self) -> None:
        if not self._accepted:
            raise ConfigError(
                f"seen() and fresh() of this filter drop about {self._error_rate:.3%} of new messages as duplicates; "
                "if that is fine, say accept_errors=True; if not, put the filter in front of an exact guard with "
                "InFront, or use the guard alone"
            )


class OnceOver:
    """Says, one time, that a filter holds more than it was made for."""

    def __init__(self) -> None:
        self._told = False

    def look(self, what: str, added: int, capacity: int) -> None:
        if added > capacity and not self._told:
            self._told = True
            logger.warning(
                "%s holds more than the %d ids it was made for, so its error rate grows past the stated one; "
                "make it larger",
                what,
                capacity,
            )
