"""What we answer in place of the handler: problems (RFC 9457) with stable types and codes, one table."""

from enum import StrEnum
from typing import Any

import msgspec

from dupeproof.errors import Busy, Dead, Held, KeyReused, StoreUnavailable
from dupeproof.http.answers import Answer

SOON = 1
"""Seconds after which a retry is worth while."""
MEDIA_TYPE = "application/problem+json"
THE_KEY = "the header Idempotency-Key"
"""What a client has to send, where the app has not chosen another place for it."""


class Code(StrEnum):
    KEY_MISSING = "key-missing"
    KEY_MALFORMED = "key-malformed"
    KEY_TOO_LONG = "key-too-long"
    BODY_MALFORMED = "body-malformed"
    BODY_TOO_LARGE = "body-too-large"
    KEY_REUSED = "key-reused"
    IN_PROGRESS = "in-progress"
    ALREADY_COMPLETED = "already-completed"
    UNRESOLVED = "unresolved"
    ATTEMPTS_EXHAUSTED = "attempts-exhausted"
    STORE_UNAVAILABLE = "store-unavailable"
    SCOPE_MISSING = "scope-missing"
    NOT_AUTHORIZED = "not-authorized"
    HANDLER_FAILED = "handler-failed"


class Problem(msgspec.Struct, frozen=True):
    status: int
    title: str
    detail: str
    retry_after: int | None = None


PROBLEMS = {
    Code.KEY_MISSING: Problem(
        400,
        "Idempotency key missing",
        f"This request needs {THE_KEY}: a new unique value per operation, kept over its retries.",
    ),
    Code.KEY_MALFORMED: Problem(
        400,
        "Idempotency key malformed",
        f"Send {THE_KEY} once, with one value of printable ASCII characters, bare or in double quotes.",
    ),
    Code.KEY_TOO_LONG: Problem(
        400, "Idempotency key too long", "An idempotency key has at most 255 characters."
    ),
    Code.BODY_MALFORMED: Problem(
        400, "Request body malformed", "The body does not agree with its Content-Length."
    ),
    Code.BODY_TOO_LARGE: Problem(
        413, "Request body too large", "The body is larger than this server takes with an idempotency key."
    ),
    Code.KEY_REUSED: Problem(
        422,
        "Idempotency key reused",
        "This key was used before with another request; use a new key for a new operation.",
    ),
    Code.IN_PROGRESS: Problem(
        409,
        "Request in progress",
        "A request with this key is being worked on; send it again in a moment.",
        SOON,
    ),
    Code.ALREADY_COMPLETED: Problem(
        409,
        "Request already completed",
        "The request with this key is done, and its response was not kept; it is not run again.",
    ),
    Code.UNRESOLVED: Problem(
        409,
        "Outcome unknown",
        "An earlier request with this key did not come to its end; someone has to find out whether it took effect.",
    ),
    Code.ATTEMPTS_EXHAUSTED: Problem(
        409,
        "Attempts used up",
        "The request with this key has failed too often; use a new key for another try.",
    ),
    Code.STORE_UNAVAILABLE: Problem(
        503,
        "Idempotency store unavailable",
        "Nothing was done; send the request again with the same key.",
        SOON,
    ),
    Code.SCOPE_MISSING: Problem(
        500,
        "Caller unknown",
        "The server could not determine whose idempotency key this is, so nothing was done.",
    ),
    Code.NOT_AUTHORIZED: Problem(
        403, "Not authorized", "You may not see the response to this request any more; it was not run again."
    ),
    Code.HANDLER_FAILED: Problem(
        500, "Internal error", "The request failed; the same key gets this answer again."
    ),
}

REFUSALS: dict[type[Exception], Code] = {
    KeyReused: Code.KEY_REUSED,
    Busy: Code.IN_PROGRESS,
    Held: Code.UNRESOLVED,
    Dead: Code.ATTEMPTS_EXHAUSTED,
    StoreUnavailable: Code.STORE_UNAVAILABLE,
}
"""The problem for each error that a claim raises."""


class Refused(Exception):
    """The request is answered with a problem, and not handled."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.code = code


def problem(
    code: Code,
    *,
    status: int | None = None,
    the_key: str = THE_KEY,
    location: bytes | None = None,
    **more: Any,
) -> Answer:
    """The answer for a problem. `location` goes into a header, and with `more` into the body."""
    found = PROBLEMS[code]
    answered = status or found.status
    content = {
        "type": f"urn:dupeproof:problem:{code}",
        "title": found.title,
        "status": answered,
        "detail": found.detail.replace(THE_KEY, the_key),
        "code": str(code),
        **more,
    }
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]
    if found.retry_after is not None:
        headers.append((b"retry-after", b"%d" % found.retry_after))
    if location is not None:
        content["location"] = location.decode("latin-1")
        headers.append((b"location", location))
    body = msgspec.json.encode(content)
    headers.append((b"content-length", b"%d" % len(body)))
    return Answer(answered, headers, body)


_ANSWERS = {
    "fastapi.exceptions.RequestValidationError": 422,
    "django.http.response.Http404": 404,
    "django.http.multipartparser.MultiPartParserError": 400,
    "django.core.exceptions.PermissionDenied": 403,
    "django.core.exceptions.BadRequest": 400,
    "django.core.exceptions.SuspiciousOperation": 400,
    "ninja.errors.ValidationError": 422,
    "dupeproof.errors.TokenError": 403,
}
"""Errors of frameworks that have no status in them, and the one that they are answered with."""


def status_said_by(error: BaseException) -> int | None:
    """The status of an error that is an answer; of one that is raised for a client's failed call, none."""
    status = getattr(error, "code", None)
    if isinstance(status, int) and callable(getattr(error, "get_response", None)):
        return status
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and (hasattr(error, "detail") or type(error).__module__ == "ninja.errors"):
        return status
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((_ANSWERS[name] for name in names if name in _ANSWERS), None)


def answer_to(error: Exception) -> Answer | None:
    """What an error says that has a status: of Starlette, FastAPI, Litestar and Django REST framework, or of Werkzeug."""
    if callable(respond := getattr(error, "get_response", None)) and isinstance(
        getattr(error, "code", None), int
    ):
        response = respond()
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers
        ]
        return Answer(response.status_code, headers, response.get_data())
    status = getattr(error, "status_code", None)
    if not isinstance(status, int) or not hasattr(error, "detail"):
        return None
    body = msgspec.json.encode({"detail": error.detail}, enc_hook=str)
    given = getattr(error, "headers", None) or {}
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given.items()]
    return Answer(status, headers, body)
