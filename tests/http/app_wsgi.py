"""The shop on nothing but WSGI."""

import time
from http import HTTPStatus

import shop

from dupeproof.http.wsgi import IdempotencyMiddleware, WsgiRequest


class Late:
    """Its end fails, after the response."""

    def __iter__(self):
        return iter([b"done"])

    def __len__(self):
        return 1

    def close(self):
        shop.late()


def bare(environ, start_response):
    path = environ["PATH_INFO"].strip("/")
    if path.startswith("runs/"):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(shop.count(path.removeprefix("runs/"))).encode()]
    if shop.is_stranger(WsgiRequest(environ)):
        start_response("401 Unauthorized", [*shop.STRANGER[1].items()])
        return [shop.STRANGER[2]]
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    name, seconds = shop.name_and_seconds(body)
    shop.ran(name)
    time.sleep(seconds)
    if path == "orders":
        status, headers, body = shop.made(name)
        write = start_response("201 Created", [*headers.items()])
        write(body[:10])
        return [body[10:]]
    if path in shop.CHUNKS:
        start_response("200 OK", [*shop.STREAM_HEADERS[path].items()])
        return iter(shop.CHUNKS[path])
    if path == "trickle":
        start_response("200 OK", [])
        return shop.trickle()
    if path == "large":
        start_response("200 OK", [("Content-Length", str(shop.LARGE))])
        return [b"x" * 1_000_000] * 3
    if path == "broken":
        raise RuntimeError("broken")
    if path == "file":
        start_response(
            "200 OK", [("Content-Length", str(shop.FILE.stat().st_size)), ("Content-Type", "text/plain")]
        )
        return shop.FILE.open("rb")
    if path == "late":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return Late()
    status, headers, body = shop.plain(path, name)
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]


app = IdempotencyMiddleware(bare, **shop.OPTIONS)
