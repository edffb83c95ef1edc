"""The client: one key for all tries of a request, and no try where another answer is not to be had."""

import asyncio
import contextlib
import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from misbehaving import GARBAGE, HALF, HANG_UP, Server, answer

from dupeproof import ConfigError
from dupeproof.http.client import AsyncIdempotentTransport, IdempotentTransport

OK = answer(200, b'{"done": true}', Content_Type="application/json")
IN_PROGRESS = answer(
    409, json.dumps({"code": "in-progress"}).encode(), Content_Type="application/problem+json", Retry_After=0
)


@pytest.fixture(params=["sync", "async"])
def send(request):
    """`send(method, url, options of the transport, …)`: one request by either client."""

    def plainly(method, url, *, options=None, **given):
        transport = IdempotentTransport(**({"backoff": "10ms"} | (options or {})))
        with httpx.Client(transport=transport, timeout=5) as client:
            return client.request(method, url, **given)

    def in_a_loop(method, url, *, options=None, **given):
        async def main():
            transport = AsyncIdempotentTransport(**({"backoff": "10ms"} | (options or {})))
            async with httpx.AsyncClient(transport=transport, timeout=5) as client:
                return await client.request(method, url, **given)

        return asyncio.run(main())

    return plainly if request.param == "sync" else in_a_loop


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("trouble", [HANG_UP, HALF, GARBAGE], ids=["hang up", "half", "garbage"])
def test_one_key_is_kept_over_all_tries(send, method, trouble):
    with Server(trouble, trouble, OK) as server:
        response = send(method, server.url, json={"amount": 5})
        assert response.json() == {"done": True}
        assert response.elapsed.total_seconds() > 0
        assert len(server.asked) == 3
        assert len(set(server.keys)) == 1
        assert len(server.keys[0]) == 36
        assert {body for _, _, body in server.asked} == {b'{"amount":5}'}
        send(method, server.url, json={"amount": 5})
        assert server.keys[-1] != server.keys[0]


def test_the_callers_own_key_wins(send):
    with Server(HANG_UP, OK) as server:
        response = send("POST", server.url, headers={"idempotency-key": '"mine"'})
        assert server.keys == ['"mine"', '"mine"']
        assert response.request.headers["Idempotency-Key"] == '"mine"'


@pytest.mark.parametrize("status", [425, 429, 502, 503, 504])
def test_what_may_pass_is_tried_again(send, status):
    with Server(answer(status), answer(status, Retry_After=0), OK) as server:
        assert send("POST", server.url).status_code == 200
        assert len(set(server.keys)) == 1
        assert len(server.keys) == 3


def test_a_conflict_that_asks_to_come_again_may_pass(send):
    busy = answer(409, b"busy", Retry_After=0)
    with Server(busy, OK) as server:
        assert send("POST", server.url).status_code == 200
        assert len(server.asked) == 2
    with Server(busy) as server:
        assert send("POST", server.url, options={"tries": 3}).status_code == 409
        assert len(server.asked) == 3


def chunked(status, body, **headers):
    """As a proxy sends it on that took the length away."""
    head = answer(status, **headers).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


PROBLEM = b'{"code": "in-progress"}'
ZIPPED = {"Content_Type": "application/problem+json", "Content_Encoding": "gzip", "Retry_After": 0}


@pytest.mark.parametrize(
    "busy",
    [
        answer(409, gzip.compress(PROBLEM), **ZIPPED),
        chunked(409, PROBLEM, Content_Type="application/problem+json", Retry_After=0),
        chunked(409, gzip.compress(PROBLEM), **ZIPPED),
    ],
    ids=["compressed", "chunked", "both"],
)
def test_a_first_try_at_work_is_known_through_proxies(send, busy):
    with Server(busy, OK) as server:
        assert send("POST", server.url).status_code == 200
        assert len(server.asked) == 2


def test_a_first_try_at_work_is_waited_for_until_the_deadline(send):
    with Server(*[IN_PROGRESS] * 20, OK) as server:
        assert send("POST", server.url, options={"tries": 3}).status_code == 200
        assert len(server.asked) == 21
    with Server(IN_PROGRESS) as server:
        with contextlib.suppress(httpx.TimeoutException):  # of a last try that had next to no time left
            assert send("POST", server.url, options={"deadline": "1s", "backoff": "50ms"}).status_code == 409
        assert 2 <= len(server.asked) <= 21
    with Server(IN_PROGRESS) as server:
        assert send("POST", server.url, options={"tries": 1}).status_code == 409
        assert len(server.asked) == 1


def test_an_answer_that_trickles_in_is_bounded_by_the_deadline(send):
    def trickle(listening):
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while True:
                connection.sendall(b"x")
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=trickle, args=[listening])
        server.start()
        began = time.monotonic()
        with pytest.raises(httpx.ReadTimeout, match="deadline"):
            send("POST", f"http://127.0.0.1:{listening.getsockname()[1]}/", options={"deadline": "300ms"})
        assert time.monotonic() - began < 3
        server.join(10)


def test_a_first_try_at_work_is_waited_for(send):
    stripes = answer(
        409, b'{"error": {"code": "idempotency_key_in_use"}}', Content_Type="application/json", Retry_After=0
    )
    with Server(IN_PROGRESS, stripes, OK) as server:
        assert send("POST", server.url).status_code == 200
        assert len(server.asked) == 3


@pytest.mark.parametrize(
    "final",
    [
        answer(400),
        answer(422, Retry_After=0),
        answer(500),
        answer(404),
        answer(409),
        answer(409, b'{"code": "already-completed"}', Content_Type="application/problem+json"),
        answer(409, b"not json", Content_Type="application/json"),
        answer(409, b"[1]", Content_Type="application/json"),
        answer(409, b'{"code": ["in-progress"]}', Content_Type="application/json"),
        answer(409, b'{"error": {"code": {}}}', Content_Type="application/json"),
        answer(409, b"[" * 500_000, Content_Type="application/json"),
        answer(503, Idempotent_Replayed="true", Retry_After=0),
        answer(201),
        answer(303, Location="/elsewhere"),
    ],
    ids=lambda final: final[9:12].decode(),
)
def test_an_answer_is_an_answer(send, final):
    with Server(final) as server:
        response = send("POST", server.url)
        assert response.status_code == int(final[9:12])
        assert len(server.asked) == 1


def test_a_server_that_is_not_there_yet_is_waited_for(send):
    with socket.create_server(("127.0.0.1", 0)) as place:
        url = f"http://127.0.0.1:{place.getsockname()[1]}/"
    began = time.monotonic()
    with pytest.raises(httpx.ConnectError):
        send("POST", url, options={"tries": 4, "backoff": "20ms"})
    assert time.monotonic() - began >= (20 + 40 + 80) / 1_000 / 2


def test_no_try_begins_after_the_deadline(send):
    with Server(answer(503)) as server:
        began = time.monotonic()
        with contextlib.suppress(httpx.TimeoutException):  # of a last try that had next to no time left
            options = {"deadline": "300ms", "backoff": "50ms", "tries": 1_000}
            assert send("POST", server.url, options=options).status_code == 503
        assert time.monotonic() - began < 3
        assert 2 <= len(server.asked) <= 12


def test_a_server_that_hangs_is_bounded_by_the_deadline_too(send):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(httpx.ReadTimeout):
            send("POST", f"http://127.0.0.1:{silent.getsockname()[1]}/", options={"deadline": "300ms"})
        assert time.monotonic() - began < 3


def test_a_wait_longer_than_the_deadline_is_not_begun(send):
    far = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    for wish in (3_600, far, "9" * 400):
        with Server(answer(429, Retry_After=wish)) as server:
            assert send("POST", server.url).status_code == 429
            assert len(server.asked) == 1


@pytest.mark.parametrize(
    "wish",
    [
        "",
        "soon",
        "-5",
        "1.5",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "Wed, 21 Oct 99999999999 07:28:00 GMT",
        "Wed, 21 Oct 2015 07:28:00 +99999999999999",
    ],
)
def test_odd_wishes_do_no_harm(send, wish):
    with Server(answer(503, Retry_After=wish), OK) as server:
        assert send("POST", server.url).status_code == 200


def test_retry_after_is_waited_for(send):
    with Server(answer(503, Retry_After=1), OK) as server:
        began = time.monotonic()
        assert send("POST", server.url).status_code == 200
        assert time.monotonic() - began >= 0.99


def test_a_body_that_can_be_read_once_is_sent_whole_each_time():
    def parts():
        yield b"one,"
        yield b"two"

    with (
        Server(HANG_UP, OK) as server,
        httpx.Client(transport=IdempotentTransport(backoff="10ms")) as client,
    ):
        assert client.post(server.url, content=parts()).status_code == 200
        assert [b"one," in body and b"two" in body for _, _, body in server.asked] == [True, True]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_requests_that_are_idempotent_already_need_no_key(send, method):
    with Server(HANG_UP, OK) as server:
        assert send(method, server.url).status_code == 200
        assert server.keys == [None, None]


def test_methods_nobody_knows_are_sent_once(send):
    with Server(HANG_UP, OK) as server:
        with pytest.raises(httpx.RemoteProtocolError):
            send("BREW", server.url)
        assert server.keys == [None]


def test_methods_and_header_can_be_chosen(send):
    with Server(HANG_UP, OK) as server:
        send("PUT", server.url, options={"methods": ["put"], "header": "X-Key", "make_key": lambda: "k"})
        assert [headers["x-key"] for _, headers, _ in server.asked] == ["k", "k"]


def test_compressed_answers_are_decoded_once(send):
    packed = gzip.compress(b"plain")
    with Server(answer(200, packed, Content_Encoding="gzip")) as server:
        assert send("POST", server.url).text == "plain"


def test_streams_are_passed_on_as_they_come():
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
    with (
        Server(chunked) as server,
        httpx.Client(transport=IdempotentTransport()) as client,
        client.stream("POST", server.url) as response,
    ):
        assert not response.is_stream_consumed
        assert b"".join(response.iter_bytes()) == b"abcdef"


@pytest.mark.parametrize(
    "wrong", [{"tries": 0}, {"tries": True}, {"methods": "POST"}, {"deadline": "soon"}, {"backoff": -1}]
)
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ConfigError):
        IdempotentTransport(**wrong)


def test_the_client_and_wsgi_need_no_starlette():
    code = """
import sys
sys.modules["starlette"] = None
import dupeproof.http.client, dupeproof.http.wsgi
try:
    from dupeproof.http import IdempotencyMiddleware
except ModuleNotFoundError as exc:
    print(exc)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "dupeproof[http]"' in done.stdout
