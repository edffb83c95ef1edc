"""Which headers of a response are stored, and those we add."""

from functools import lru_cache

from dupeproof.http.answers import Headers, Pairs

REPLAYED = (b"idempotent-replayed", b"true")
NOT_STORED = (b"idempotency-stored", b"false")

_NEVER_STORED = frozenset(
    (
        # Of this one exchange and its caller.
        b"set-cookie set-cookie2 cookie www-authenticate authentication-info authorization"
        b" proxy-authenticate proxy-authentication-info proxy-authorization x-csrf-token x-csrftoken x-xsrf-token"
        # Of this one connection.
        b" connection keep-alive proxy-connection te trailer transfer-encoding upgrade"
        # Of this moment.
        b" date age retry-after-ms server-timing ratelimit ratelimit-limit ratelimit-remaining ratelimit-reset ratelimit-policy"
        # Of this try.
        b" traceparent tracestate traceresponse b3 x-request-id x-correlation-id x-trace-id x-amzn-trace-id"
        b" x-amzn-requestid x-amz-request-id x-cloud-trace-context x-span-id request-id correlation-id uber-trace-id"
        b" sentry-trace baggage idempotent-replayed idempotency-stored"
    ).split()
)
_NEVER_STORED_BEGINNINGS = (b"access-control-", b"x-ratelimit-", b"x-rate-limit-", b"x-b3-", b"x-datadog-")


def storable(headers: Pairs) -> Headers:
    """Names in lower case; of several values of a name all are kept, in order."""
    given = list(headers)
    kept = [(lower, value) for name, value in given if (lower := _storable_name(name)) is not None]
    if len(kept) == len(given):
        return kept
    # What Connection names is of this one connection too (RFC 9110, 7.6.1).
    options = b",".join(value for name, value in given if name.lower() == b"connection").lower()
    named = {option.strip() for option in options.split(b",")}
    return [(name, value) for name, value in kept if name not in named]


@lru_cache(1024)
def _storable_name(name: bytes) -> bytes | None:
    lower = name.lower()
    stored = lower not in _NEVER_STORED and not lower.startswith(_NEVER_STORED_BEGINNINGS)
    return lower if stored else None


def value_of(headers: Pairs, wanted: bytes) -> bytes | None:
    for name, value in headers:
        if name.lower() == wanted:
            return value
    return None
