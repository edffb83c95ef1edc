"""How single values are written in canonical form: JSON's own per RFC 8785, all others behind an `@` tag."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any
from uuid import UUID

# JSON numbers are doubles: whole numbers are exact up to here, beyond it neighbours share one double.
EXACT = 2**53

# The C version where there is one. It escapes what RFC 8785 3.2.2.2 names and nothing else.
quote: Callable[[str], str] = encode_basestring


class RefusedError(Exception):
    """A value without canonical form. Never leaves the package: `canonical` turns it into KeyInvalid.

    `path` grows, innermost step first, on the way out; so paths cost nothing while all is well.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path: list[str | int | None] = []


def write_str(value: str, _depth: int = 0) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RefusedError(
                "is text with a lone surrogate, which has no UTF-8 form; decode it properly first"
            ) from None
    return quote(value)


def write_none(_value: None, _depth: int) -> str:
    return "null"


def write_bool(value: bool, _depth: int) -> str:
    return "true" if value else "false"


def write_int(value: int, _depth: int) -> str:
    if -EXACT <= value <= EXACT:
        return int.__repr__(value)
    # Hexadecimal, because Python limits the length of decimal conversions.
    return f'@int"{int(value):x}"'


def write_float(value: float, _depth: int) -> str:
    """As ECMAScript's Number::toString, which differs from repr in where it starts to use exponents."""
    if -EXACT <= value <= EXACT and value.is_integer():
        return int.__repr__(int(value))  # also turns -0.0 into 0
    text = float.__repr__(value)
    if "e" not in text and "n" not in text:
        return text.removesuffix(".0")
    if "n" in text:  # nan, inf, -inf
        raise RefusedError(
            "is NaN or infinite, which is equal to nothing or to too much; leave it out or use None"
        )
    mantissa, _, exponent = text.partition("e")
    sign = "-" if mantissa[0] == "-" else ""
    digits = mantissa.lstrip("-").replace(".", "")
    point = int(exponent) + 1  # where the decimal point stands, counted from the first digit
    if 0 < point <= 21:
        # repr goes over to exponents at 1e16, past the last double with a fraction: only zeros are missing.
        return sign + digits.ljust(point, "0")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def write_decimal(value: Decimal, _depth: int) -> str:
    """Numerically equal decimals are equal: 1.50 and 1.5. Not `normalize()`: it rounds to the context."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise RefusedError("is a Decimal that is NaN or infinite; leave it out or use None")
    text = "".join(map(str, digits))
    stripped = text.strip("0")
    if not stripped:
        return '@decimal"0"'
    exponent += len(text) - len(text.rstrip("0"))
    return f'@decimal"{"-" if sign else ""}{stripped}e{exponent}"'


def write_datetime(value: datetime, _depth: int) -> str:
    """The instant, in UTC, where there is an offset; without one the wall clock, which is another thing."""
    if getattr(value, "nanosecond", 0):  # pandas.Timestamp
        raise RefusedError(
            "is a timestamp with nanoseconds, which would be cut off; round it to microseconds first"
        )
    if value.utcoffset() is None:
        return f'@datetime"{_clock(value)}"'
    try:
        return f'@datetime"{_clock(value.astimezone(UTC))}Z"'
    except OverflowError:
        raise RefusedError("is a datetime that lies outside the years 1 to 9999 in UTC") from None


def _clock(value: datetime) -> str:
    return datetime.isoformat(value.replace(tzinfo=None), timespec="microseconds")


def write_date(value: date, _depth: int) -> str:
    return f'@date"{date.isoformat(value)}"'


def write_time(value: time, _depth: int) -> str:
    return f'@time"{time.isoformat(value, timespec="microseconds")}"'


def write_timedelta(value: timedelta, _depth: int) -> str:
    return f'@timedelta"{(value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds}us"'


def is_uuid_class(kind: type) -> bool:
    """Also the faster one of the package uuid-utils, which is not derived from Python's and need not be installed."""
    return issubclass(kind, UUID) or (kind.__name__ == "UUID" and kind.__module__.startswith("uuid_utils"))


def write_uuid(value: UUID, _depth: int) -> str:
    return f'@uuid"{value.hex}"'


def write_bytes(value: bytes | bytearray | memoryview, _depth: int) -> str:
    return f'@bytes"{value.hex()}"'


SCALARS: dict[type, Callable[[Any, int], str]] = {
    str: write_str,
    type(None): write_none,
    bool: write_bool,
    int: write_int,
    float: write_float,
    Decimal: write_decimal,
    datetime: write_datetime,
    date: write_date,
    time: write_time,
    timedelta: write_timedelta,
    UUID: write_uuid,
    bytes: write_bytes,
    bytearray: write_bytes,
    memoryview: write_bytes,
}
