"""Which responses can be kept to be replayed."""

from dupeproof.http.answers import Pairs
from dupeproof.http.headers import value_of

_WITHOUT_BODY = (204, 205, 304)


def can_be_kept(status: int, headers: Pairs, limit: int, *, goes_on: bool) -> bool:
    """Not streams: what goes on after its first piece and does not say how long, and server-sent events. Nor what is
    larger than the limit.
    """
    if status in _WITHOUT_BODY:
        return True
    if (value_of(headers, b"content-type") or b"").lower().startswith(b"text/event-stream"):
        return False
    length = value_of(headers, b"content-length")
    if length is None:
        return not goes_on
    return length.isdigit() and int(length[:20]) <= limit
