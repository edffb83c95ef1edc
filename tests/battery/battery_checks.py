"""What is asked of every cell. A check returns what is worth knowing beside `ok`, or raises a `Deviation`."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urljoin
from uuid import uuid4

import httpx
from battery_servers import Running, has_both
from h2.connection import H2Connection
from h2.errors import ErrorCodes

from dupeproof_lab.servers.base import ServerFailed

SECONDS = 0.8
"""What a slow handler takes."""
SOON = 5
"""Within which a stream without a client is to end; it would go on for more than twice as long."""
PATIENCE = 15


class Deviation(AssertionError):
    """In the words of the table."""


def expect(condition: object, otherwise: str) -> None:
    if not condition:
        raise Deviation(otherwise)


def headers(key: str | None, **others: str) -> dict[str, str]:
    own = {} if key is None else {"Idempotency-Key": key}
    return {"X-Caller": "someone", "Content-Type": "application/json", **own, **others}


def body_of(name: str, seconds: float = 0) -> bytes:
    return json.dumps({"name": name, "seconds": seconds}).encode()


def post(
    cell: Running, name: str, path: str = "/orders/", *, seconds: float = 0, **others: str
) -> httpx.Response:
    """The name is the key too."""
    with cell.client() as client:
        return client.post(path, content=body_of(name, seconds), headers=headers(name, **others))


def answered(cell: Running, name: str, path: str = "/orders/", *, seconds: float = 0) -> httpx.Response:
    """The response, as soon as the key is not in progress any more."""
    deadline = time.monotonic() + PATIENCE
    while True:
        response = post(cell, name, path, seconds=seconds)
        if response.status_code != 409 or response.json().get("code") != "in-progress":
            return response
        expect(time.monotonic() < deadline, f"in progress for {PATIENCE} s")
        time.sleep(0.05)


def is_replay(response: httpx.Response) -> bool:
    return response.headers.get("idempotent-replayed") == "true"


def story(cell: Running, name: str) -> str:
    """What the handler did, as short as it can be told."""
    return ", ".join(cell.wrote(name)) or "no run"


def expect_one_run(cell: Running, name: str) -> None:
    expect(cell.wrote(name) == ["begin", "end"], story(cell, name))


def expect_answer(response: httpx.Response) -> None:
    expect(response.status_code == 201, f"answered with {_told(response)}")


def expect_replay(response: httpx.Response, first: httpx.Response) -> None:
    expect(is_replay(response), f"retry gets {_told(response)}")
    same = (response.status_code, response.content) == (first.status_code, first.content)
    expect(same, "the replay is another response")


def _told(response: httpx.Response) -> str:
    if response.headers.get("content-type") == "application/problem+json":
        return f"{response.status_code} {response.json().get('code')}"
    return str(response.status_code)


def new_name() -> str:
    return uuid4().hex


def during(
    cell: Running, name: str, path: str, act: Callable[[], object], *, hang_up: bool, seconds: float = SECONDS
) -> None:
    """Act while the handler runs, with its client waiting or gone."""

    async def ask() -> None:
        client = httpx.AsyncClient(**cell.client_options())
        asking = asyncio.ensure_future(
            client.post(path, content=body_of(name, seconds), headers=headers(name))
        )
        deadline = time.monotonic() + PATIENCE
        while "begin" not in cell.wrote(name):
            expect(time.monotonic() < deadline, "the handler does not begin")
            expect(not asking.done(), "answered before the handler began")
            await asyncio.sleep(0.01)
        if hang_up:
            asking.cancel()
            await asyncio.wait([asking])
            await client.aclose()
            await asyncio.sleep(0.1)  # in which the server hears of it
        await asyncio.get_running_loop().run_in_executor(None, act)
        await asyncio.wait([asking])
        if not asking.cancelled():
            asking.exception()  # is of no interest here
        await client.aclose()

    asyncio.run(ask())


@contextmanager
def reset(cell: Running, name: str, path: str) -> Iterator[None]:
    """Over HTTP/2: ask, and take the request back while the handler runs."""
    url = httpx.URL(cell.url)
    fields = {":method": "POST", ":scheme": "http", ":authority": f"{url.host}:{url.port}", ":path": path}
    fields |= {field.lower(): value for field, value in headers(name).items()}
    fields["content-length"] = str(len(body_of(name, SECONDS)))  # without it some frameworks see no body
    protocol = H2Connection()
    with socket.create_connection((url.host, url.port)) as connection:
        protocol.initiate_connection()
        protocol.send_headers(1, list(fields.items()))
        protocol.send_data(1, body_of(name, SECONDS), end_stream=True)
        connection.sendall(protocol.data_to_send())
        cell.wait_for(name, "begin")
        protocol.reset_stream(1, ErrorCodes.CANCEL)
        connection.sendall(protocol.data_to_send())
        yield


def replay(cell: Running) -> None:
    name = new_name()
    first = post(cell, name)
    expect_answer(first)
    expect(not is_replay(first), "the first answer is a replay")
    expect_replay(post(cell, name), first)
    expect_one_run(cell, name)


def eight_at_once(cell: Running) -> None:
    name, start = new_name(), threading.Barrier(8)

    def ask() -> httpx.Response:
        start.wait()
        return answered(cell, name, seconds=0.3)

    with ThreadPoolExecutor(8) as threads:
        responses = [each.result() for each in [threads.submit(ask) for _ in range(8)]]
    expect_one_run(cell, name)
    for response in responses:
        expect_answer(response)
    expect(len({response.content for response in responses}) == 1, "not all get the same answer")
    expect([is_replay(each) for each in responses].count(False) == 1, "several are first")


def mismatch(cell: Running) -> None:
    name = new_name()
    first = post(cell, name)
    other = post(cell, name, seconds=0.01)
    expect(other.status_code == 422, f"another body gets {_told(other)}")
    expect_replay(post(cell, name), first)
    expect_one_run(cell, name)


def chunked(cell: Running) -> str | None:
    """Where server and framework give a handler such a body at all, which is asked for without a key first."""
    bare, name = new_name(), new_name()

    def ask(of: str, key: str | None) -> httpx.Response:
        body = body_of(of)
        with cell.client() as client:
            return client.post(
                "/orders/", content=iter([body[:5], body[5:9], body[9:]]), headers=headers(key)
            )

    without = ask(bare, None)
    first = ask(name, name)
    if without.status_code != 201:
        expect(first.status_code >= 400, f"without a key {_told(without)}, with one {_told(first)}")
        expect(cell.wrote(name) == [], story(cell, name))
        return f"{without.status_code} without a key too"
    expect_answer(first)
    expect_replay(ask(name, name), first)
    expect_replay(post(cell, name), first)
    expect_one_run(cell, name)
    return None


def slash(cell: Running) -> str | None:
    return _redirected(cell, "/orders")


def moved(cell: Running) -> str | None:
    return _redirected(cell, "/moved/")


def _redirected(cell: Running, path: str) -> str | None:
    name = new_name()
    first = post(cell, name, path)
    if first.status_code == 201 and path == "/orders":
        return "no redirect"
    expect(first.status_code in (301, 307, 308), f"answered with {_told(first)}")
    again = post(cell, name, path)
    expect(again.status_code == first.status_code, f"asked again: {_told(again)}")
    target = urljoin(cell.url + path, first.headers["location"])
    expect(target == f"{cell.url}/orders/", f"redirected to {target}")
    response = post(cell, name)
    expect(response.status_code == 201, f"followed: {_told(response)}")
    expect_replay(post(cell, name), response)
    expect_one_run(cell, name)
    return str(first.status_code)


def chain(cell: Running) -> str | None:
    """A client that lost the answer asks from the start, with its key, and gets it in the end."""
    name = new_name()
    first = post(cell, name, "/orders")
    if first.status_code == 201:
        return "no redirect"
    response = post(cell, name)
    expect(response.status_code == 201, f"followed: {_told(response)}")
    again = post(cell, name, "/orders")
    if not is_replay(again) or again.status_code != 201:
        expect(again.status_code == first.status_code, f"from the start again: {_told(again)}")
        again = post(cell, name)
    expect_replay(again, response)
    expect_one_run(cell, name)
    return None


def hang_up(cell: Running, path: str = "/orders/", *, seconds: float = SECONDS) -> None:
    """With HTTP/2 a client may also leave its request and keep the connection."""
    name = new_name()
    during(cell, name, path, lambda: None, hang_up=True, seconds=seconds)
    _expect_ended(cell, name, path, seconds)
    if cell.server.http2:
        name = new_name()
        with reset(cell, name, path):
            _expect_ended(cell, name, path, SECONDS)


def _expect_ended(cell: Running, name: str, path: str, seconds: float) -> None:
    response = answered(cell, name, path, seconds=seconds)
    expect_one_run(cell, name)
    expect_answer(response)
    expect(is_replay(response), "the retry is not a replay")


def hang_up_sync(cell: Running) -> None:
    hang_up(cell, "/sync/")


def kill(cell: Running) -> None:
    """By design the handler runs again, for nobody knows how far it came."""
    name = new_name()
    during(cell, name, "/orders/", cell.kill, hang_up=False)
    expect(cell.wrote(name) == ["begin"], f"before the retry: {story(cell, name)}")
    cell.start()
    response = answered(cell, name, seconds=SECONDS)
    expect_answer(response)
    expect(not is_replay(response), "what was killed is replayed")
    expect_replay(post(cell, name, seconds=SECONDS), response)
    expect(cell.wrote(name) == ["begin", "begin", "end"], story(cell, name))


def terminate(cell: Running, path: str = "/orders/") -> str:
    """Stopped in good order, with a handler at work that nobody waits for: recorded, or run again, but never lost."""
    name, took = new_name(), []
    during(cell, name, path, lambda: took.append(cell.stop()), hang_up=True)
    cell.start()
    response = answered(cell, name, path, seconds=SECONDS)
    expect(took != [None] or cell.server.lingers, "does not end")
    expect_answer(response)
    lines = [line for line in cell.wrote(name) if line in ("begin", "end")]
    expect(lines.count("end") == 1, story(cell, name))
    expect_replay(post(cell, name, path, seconds=SECONDS), response)
    if lines == ["begin", "end"]:
        expect(is_replay(response), "not a replay")
        return "recorded"
    expect(lines == ["begin", "begin", "end"], story(cell, name))
    expect(not is_replay(response), "what was lost is replayed")
    return "run again"


def terminate_sync(cell: Running) -> str:
    return terminate(cell, "/sync/")


def stream(cell: Running, path: str = "/stream/") -> None:
    name = new_name()
    options = {"content": body_of(name), "headers": headers(name, **{"Accept-Encoding": "identity"})}
    with cell.client() as client, client.stream("POST", path, **options) as response:
        expect(response.status_code == 200, f"answered with {response.status_code}")
        for chunk in response.iter_raw():
            if chunk:
                break
    try:
        cell.wait_for(name, "closed", seconds=SOON)
    except ServerFailed:
        raise Deviation(f"goes on for {SOON} s: {story(cell, name)}") from None
    expect(cell.wrote(name) == ["begin", "closed"], story(cell, name))


def events(cell: Running) -> None:
    stream(cell, "/events/")


def gzip(cell: Running) -> str | None:
    """httpx decompresses: `content` is what the handler said, if it can be read."""
    name = new_name()
    first = post(cell, name, "/text/", **{"Accept-Encoding": "gzip"})
    expect(first.status_code == 200, f"answered with {_told(first)}")
    plain = post(cell, name, "/text/", **{"Accept-Encoding": "identity"})
    expect_replay(plain, first)
    encoding = plain.headers.get("content-encoding", "identity")
    expect(encoding == "identity", f"{encoding} for who takes none")
    expect_replay(post(cell, name, "/text/", **{"Accept-Encoding": "gzip"}), first)
    expect_one_run(cell, name)
    # What compresses inside of the guard is told that nobody takes it.
    return None if first.headers.get("content-encoding") == "gzip" else "plain"


CHECKS: dict[str, Callable[[Running], str | None]] = {
    "replay": replay,
    "eight at once": eight_at_once,
    "other body": mismatch,
    "chunked": chunked,
    "slash": slash,
    "own 307": moved,
    "from the start": chain,
    "hang-up": hang_up,
    "hang-up, sync": hang_up_sync,
    "kill": kill,
    "SIGTERM": terminate,
    "SIGTERM, sync": terminate_sync,
    "stream": stream,
    "SSE": events,
    "gzip": gzip,
}
SYNC_TOO = {"hang-up, sync", "SIGTERM, sync"}


def checks_of(server: str, framework: str) -> list[str]:
    return [check for check in CHECKS if check not in SYNC_TOO or has_both(server, framework)]
