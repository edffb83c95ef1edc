"""A transport for httpx that gives each request one key and tries again, with that key, until there is an answer."""

try:
    from dupeproof.http.client.transport import IdempotentTransport
    from dupeproof.http.client.transport_async import AsyncIdempotentTransport
except ModuleNotFoundError as exc:
    if (exc.name or "").partition(".")[0] != "httpx":
        raise
    from dupeproof.errors import ConfigError

    raise ConfigError('dupeproof.http.client needs httpx; run: pip install "dupeproof[client]"') from exc

__all__ = ["AsyncIdempotentTransport", "IdempotentTransport"]
