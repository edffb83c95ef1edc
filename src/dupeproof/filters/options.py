"""The arguments filters have in common, checked in one place."""

from dupeproof.errors import ConfigError


def whole(value: object, name: str, *, most: int) -> int:
    """A whole number from 1 to `most`."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    raise ConfigError(f"{name} must be a whole number from 1 to {most:,}; got {value!r}")


def check_error_rate(value: object) -> float:
    """A rate somebody would choose: from one in a thousand million to one in two."""
    if isinstance(value, float) and 1e-9 <= value <= 0.5:
        return value
    raise ConfigError(
        f"error_rate must be a fraction from 1e-9 to 0.5, such as 0.001 for 0.1 %; got {value!r}"
    )
