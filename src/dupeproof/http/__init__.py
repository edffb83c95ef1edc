"""Retry-safe endpoints: `Idempotency-Key` for ASGI here; WSGI, Flask, FastAPI and Django in modules of their names."""

from typing import TYPE_CHECKING, Any

from dupeproof.http import idempotency
from dupeproof.http.keys import SHARED, key_for

if TYPE_CHECKING:
    from dupeproof.http.asgi import IdempotencyMiddleware

__all__ = ["SHARED", "IdempotencyMiddleware", "idempotency", "key_for"]


def __getattr__(name: str) -> Any:
    """Imported when asked for: it needs Starlette, which those of Flask, Django and httpx do without."""
    if name == "IdempotencyMiddleware":
        from dupeproof.http.asgi import IdempotencyMiddleware  # noqa: PLC0415

        return IdempotencyMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
