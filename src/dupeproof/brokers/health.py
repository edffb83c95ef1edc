"""A consumer's health over HTTP, for the probes of Kubernetes and load balancers: 200 while it consumes, else 503.

consumer = rabbitmq.consumer("amqp://…", "orders", handle, inbox=inbox)
with serve_health(consumer, port=8080):
    consumer.run()
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

import msgspec

from dupeproof import defaults
from dupeproof.brokers.outcomes import Health
from dupeproof.core.durations import Duration


class HasHealth(Protocol):
    def health(self, within: Duration = ...) -> Health: ...


@contextmanager
def serve_health(
    consumer: HasHealth, *, port: int, host: str = "127.0.0.1", within: Duration = defaults.HEALTHY_WITHIN
) -> Iterator[int]:
    """Answer probes in a thread while the block runs; the port, which is chosen for you if it is 0.

    A probe from outside of the container needs `host="0.0.0.0"`. The answer is JSON: ok, trouble, in_hand, lag.
    """

    class Probe(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            health = consumer.health(within)
            body = msgspec.json.encode(health)
            self.send_response(HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Probes come every few seconds; nobody wants to read of them."""

    server = ThreadingHTTPServer((host, port), Probe)
    thread = threading.Thread(target=server.serve_forever, name="dupeproof-health", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
