"""Retry-safe endpoints: `Idempotency-Key` for ASGI here; WSGI, Flask, FastAPI and Django in modules of their names.

The ASGI middleware is loaded when it is asked for: who has Flask or the client alone needs no Starlette.
"""

from typing import TYPE_CHECKING, Any

from dupeproof.http import idempotency
from dupeproof.http.answers import Answer
from dupeproof.http.keys import SHARED, key_for

if TYPE_CHECKING:
    from dupeproof.http.asgi import IdempotencyMiddleware

__all__ = ["SHARED", "Answer", "IdempotencyMiddleware", "idempotency", "key_for"]


def __getattr__(name: str) -> Any:
    if name == "IdempotencyMiddleware":
        from dupeproof.http.asgi import IdempotencyMiddleware  # noqa: PLC0415 - needs an extra

        return IdempotencyMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
