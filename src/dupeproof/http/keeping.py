"""Which responses can be kept to be replayed."""

from dupeproof.http.answers import Pairs

_WITHOUT_BODY = (204, 205, 304)


def can_be_kept(status: int, headers: Pairs, limit: int, *, goes_on: bool) -> bool:
    """Not streams: what goes on after its first piece and does not say how long, and server-sent events. Nor what is
    larger than the limit.
    """
    if status in _WITHOUT_BODY:
        return True
    length = None
    for name, value in headers:
        match name.lower():
            case b"content-length":
                length = value
            case b"content-type" if value.lower().startswith(b"text/event-stream"):
                return False
    if length is None:
        return not goes_on
    return length.isdigit() and int(length[:20]) <= limit
