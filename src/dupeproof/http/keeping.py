"""Which responses can be kept to be replayed."""

from dupeproof.http.answers import Pairs
from dupeproof.http.headers import value_of

_WITHOUT_BODY = (204, 205, 304)
_STREAMS = (b"text/event-stream", b"multipart/x-mixed-replace")


def can_be_kept(status: int, headers: Pairs, limit: int) -> bool:
    """Not what is larger than the limit, nor what is made to be read piece by piece."""
    if status in _WITHOUT_BODY:
        return True
    length = None
    for name, value in headers:
        match name.lower():
            case b"content-length":
                length = value
            case b"content-type" if value.lower().startswith(_STREAMS):
                return False
    return length is None or (length.isdigit() and int(length[:20]) <= limit)


def is_unbuffered(headers: Pairs) -> bool:
    """Whether a response in pieces is to go out piece by piece, by the header with which proxies are told so."""
    return (value_of(headers, b"x-accel-buffering") or b"").strip().lower() == b"no"


def has_length(headers: Pairs) -> bool:
    return value_of(headers, b"content-length") is not None
