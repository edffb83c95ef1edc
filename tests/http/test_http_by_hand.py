"""Keys of the HTTP guard that somebody resolves, and stored responses that somebody encrypts."""

import subprocess
import sys

import pytest
from http_asking import KEY, Counter, asking
from starlette.responses import JSONResponse

from dupeproof import AsyncOnce, ConfigError
from dupeproof.core.codecs import JsonCodec
from dupeproof.http import SHARED, key_for
from dupeproof.http.wsgi import IdempotencyMiddleware

WHOLE = key_for(SHARED, "k")


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "dupeproof", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
async def held(tmp_path):
    """The URL of a store with a key that is held, and a client that may send the request again."""
    url = f"sqlite:///{tmp_path}/dedup.db"
    handler = Counter(lambda request: JSONResponse({}, 503))
    async with asking(handler, store=url, on_error="hold") as client:
        await client.post("/", headers=KEY)
        assert (await client.post("/", headers=KEY)).json()["code"] == "unresolved"
        yield url, client
    assert handler.runs == 1


async def test_a_resolved_key_gets_the_response_that_it_was_given(held, tmp_path):
    url, client = held
    (tmp_path / "order.json").write_bytes(b'{"id": 7}')
    more = ["--header", "Location: /orders/7", "--header", "Content-Type: application/json"]
    done = command(
        "resolve", url, WHOLE, "--namespace", "http", "--status", "201", *more,
        "--body-file", str(tmp_path / "order.json"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    again = await client.post("/", headers=KEY)
    assert (again.status_code, again.json()) == (201, {"id": 7})
    assert again.headers["location"] == "/orders/7"
    assert again.headers["idempotent-replayed"] == "true"


async def test_a_result_is_sent_as_json(held):
    url, client = held
    assert command("resolve", url, WHOLE, "--namespace", "http", "--result", '{"id": 8}').returncode == 0
    again = await client.post("/", headers=KEY)
    assert (again.status_code, again.json()) == (200, {"id": 8})
    assert again.headers["content-type"] == "application/json"


async def test_without_a_result_it_is_done_and_there_is_nothing_to_send(held):
    url, client = held
    assert command("resolve", url, WHOLE, "--namespace", "http", "--no-result").returncode == 0
    assert (await client.post("/", headers=KEY)).json()["code"] == "already-completed"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--header", "A: b"], "--status"),
        (["--body-file", "x"], "--status"),
        (["--status", "99"], "200 to 599"),
        (["--status", "201", "--header", "no colon"], "a colon"),
        (["--status", "201", "--header", "A: b\nSet-Cookie: c"], "a colon"),
        (["--status", "201", "--header", "Content-Length: 7"], "set by the server"),
        (["--status", "201", "--body-file", "/not/there"], "cannot be read"),
        (["--status", "201", "--result", "1"], "exclude each other"),
        (["--status", "201", "--reopen"], "exclude each other"),
    ],
)
async def test_what_is_no_response_changes_nothing(held, arguments, says):
    url, client = held
    done = command("resolve", url, WHOLE, "--namespace", "http", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert (await client.post("/", headers=KEY)).json()["code"] == "unresolved"


class Turned:
    """A codec that hides what it stores, as an encrypting one does."""

    name = "turned"

    def encode(self, value, returns):
        assert isinstance(value, bytes)
        return bytes(255 - byte for byte in value)

    def decode(self, data, returns):
        return bytes(255 - byte for byte in data)

    def prepare(self, returns):
        assert returns is bytes


async def test_a_codec_of_your_own_is_given_each_response():
    handler = Counter(lambda request: JSONResponse({"card": "4242"}))
    store = "memory://turned"
    async with (
        AsyncOnce(store, namespace="http", codec=Turned()) as once,
        asking(handler, store=store, codec=Turned()) as by_option,
        asking(handler, store=once) as by_guard,
        asking(handler, store=store) as without,
    ):
        first = await by_option.post("/", headers=KEY)
        entry = await once.get(WHOLE)
        assert entry.codec == "http+turned"
        assert b"4242" not in entry.stored
        for client in (by_option, by_guard):
            again = await client.post("/", headers=KEY)
            assert again.content == first.content
            assert again.headers["idempotent-replayed"] == "true"
        assert (await without.post("/", headers=KEY)).json()["code"] == "already-completed"
        await once.forget(WHOLE)
    assert handler.runs == 1


def test_a_codec_that_takes_no_bytes_is_refused_when_the_guard_is_made():
    class Picky(Turned):
        def prepare(self, returns):
            raise ConfigError("this codec stores no bytes")

    with pytest.raises(ConfigError, match="stores no bytes"):
        IdempotencyMiddleware(None, store="memory://", scope=SHARED, codec=Picky())


async def test_a_codec_made_from_the_usual_one_is_used_too():
    class Sealed(JsonCodec, Turned):
        name = "sealed"
        encode, decode, prepare = Turned.encode, Turned.decode, Turned.prepare

    async with (
        AsyncOnce("memory://sealed", namespace="http", codec=Sealed()) as once,
        asking(Counter(lambda request: JSONResponse({"card": "4242"})), store=once) as client,
    ):
        first, again = [await client.post("/", headers=KEY) for _ in range(2)]
        entry = await once.get(WHOLE)
        await once.forget(WHOLE)
    assert entry.codec == "http+sealed"
    assert b"4242" not in entry.stored
    assert again.content == first.content


async def test_a_codec_that_cannot_read_what_it_wrote_before_runs_nothing_again(caplog):
    class Changed(Turned):
        def decode(self, data, returns):
            raise RuntimeError("another secret")

    handler = Counter(lambda request: JSONResponse({}))
    async with asking(handler, codec=Changed()) as client:
        await client.post("/", headers=KEY)
        again = await client.post("/", headers=KEY)
    assert (again.status_code, again.json()["code"]) == (409, "already-completed")
    assert handler.runs == 1
    assert "cannot be read by codec http+turned: RuntimeError" in caplog.text
