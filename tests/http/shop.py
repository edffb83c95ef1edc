"""What the apps under test have in common: a journal of what ran, on disk so that it outlives a kill, and their options."""

import json
import os
import time
from pathlib import Path

JOURNAL = Path(os.environ["SHOP_JOURNAL"])
FILE = JOURNAL.with_name("small.txt")
LEASE = float(os.environ.get("SHOP_LEASE", "0.6"))
SLOW_ONCE = "SHOP_SLOW_ONCE" in os.environ
"""Only the first run of an order takes its time."""
CHUNKS = {
    "stream": [b"one ", b"two ", b"three"],
    "unbuffered": [b"one ", b"two ", b"three"],
    "events": [b"data: one\n\n", b"data: two\n\n"],
}
STREAM_HEADERS = {
    "stream": {"Content-Type": "text/plain"},
    "unbuffered": {"Content-Type": "text/plain", "X-Accel-Buffering": "no"},
    "events": {"Content-Type": "text/event-stream"},
}
LARGE = 3_000_000


def user_of(request):
    return request.headers.get("X-User") or request.headers.get("x-user")


def is_stranger(request):
    """Whom the shop turns away by itself: with 401, and this body."""
    return user_of(request) is None


STRANGER = (401, {"Content-Type": "text/plain"}, b"who are you?")
STORE = os.environ["SHOP_STORE"]
OPTIONS = {"store": STORE, "scope": user_of, "lease": LEASE, "namespace": "shop"}
if "SHOP_ON_ERROR" in os.environ:
    OPTIONS["on_error"] = os.environ["SHOP_ON_ERROR"]


def ran(name: str) -> None:
    with JOURNAL.open("ab", buffering=0) as journal:
        journal.write(name.encode() + b"\n")


def count(name: str) -> int:
    return JOURNAL.read_bytes().split(b"\n").count(name.encode()) if JOURNAL.exists() else 0


def name_and_seconds(body: bytes) -> tuple[str, float]:
    order = json.loads(body)
    slow = not (SLOW_ONCE and count(order["name"]))
    return order["name"], order.get("seconds", 0) if slow else 0


def made(name: str) -> tuple[int, dict[str, str], bytes]:
    """The answer to an order: status, headers, body."""
    body = json.dumps({"name": name, "run": count(name), "at": time.time_ns()}).encode()
    return 201, {"Location": f"/orders/{name}", "Content-Type": "application/json"}, body


def plain(kind: str, name: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Of the answers that differ in nothing but what they say."""
    at = [("Location", f"/orders/{name}")]
    return {
        "binary": (200, [("Content-Type", "application/octet-stream")], bytes(range(256))),
        "headers": (
            200,
            [
                ("Set-Cookie", "session=1"),
                ("X-Request-Id", name),
                ("X-Kept", "one"),
                ("X-Kept", "two"),
                ("Content-Type", "text/plain"),
            ],
            b"headers",
        ),
        "nothing": (204, [], b""),
        "elsewhere": (303, at, b""),
        "moved": (307, [("Location", "/binary")], b""),
        "declined": (402, [("Content-Type", "text/plain")], b"declined"),
        "invalid": (422, [("Content-Type", "text/plain")], b"invalid"),
        "refused": (403, [("Content-Type", "text/plain")], b"refused"),
    }[kind]


def trickle():
    yield b"first"
    time.sleep(1.5)
    yield b"second"
    time.sleep(0.5)
    yield b"third"


def late() -> None:
    raise RuntimeError("after the response")
