"""Retry-safe endpoints: `Idempotency-Key` for ASGI here; WSGI, Flask, FastAPI and Django in modules of their names."""

from dupeproof.http import idempotency
from dupeproof.http.asgi import IdempotencyMiddleware
from dupeproof.http.keys import SHARED, key_for

__all__ = ["SHARED", "IdempotencyMiddleware", "idempotency", "key_for"]
