"""A small HTTP server: /metrics for Prometheus, /healthz for whoever starts and stops it."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from dupeproof.errors import ConfigError

_CLIENT_SECONDS = 10
_TEXT = "text/plain; charset=utf-8"


def new_registry() -> CollectorRegistry:
    """Without what the library says of the process it is in."""
    return CollectorRegistry()


@contextmanager
def serve_metrics(registry: CollectorRegistry, *, port: int, host: str = "127.0.0.1") -> Iterator[str]:
    """Answer in threads while the block runs; the address, with the port that was chosen if it is 0."""
    pages: dict[str, Callable[[], tuple[str, bytes]]] = {
        "/metrics": lambda: (CONTENT_TYPE_LATEST, generate_latest(registry)),
        "/healthz": lambda: (_TEXT, b"ok\n"),
    }

    class Handler(BaseHTTPRequestHandler):
        timeout = _CLIENT_SECONDS

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            kind, body = (_TEXT, b"there are /metrics and /healthz\n") if page is None else page()
            self.send_response(HTTPStatus.NOT_FOUND if page is None else HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Scrapes come every few seconds; nobody wants to read of them."""

    class Server(socketserver.ThreadingTCPServer):  # not HTTPServer, which asks DNS for its own name
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: Any) -> None:
            """A scraper that hung up; it will come again."""

    try:
        server = Server((host, port), Handler)
    except OSError as exc:
        raise ConfigError(
            f"port {port} of {host} cannot be had ({exc.strerror}); choose another with --port, or 0 for any"
        ) from exc
    thread = threading.Thread(target=server.serve_forever, name="dupeproof-metrics", daemon=True)
    thread.start()
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
