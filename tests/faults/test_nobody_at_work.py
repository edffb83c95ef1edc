"""A store that is away for a moment: no key is left busy or held that nobody works on, and no work done is forgotten."""

import contextlib
import threading
import time

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dupeproof import AsyncOnce, Once, StoreUnavailable
from dupeproof.http import SHARED, IdempotencyMiddleware
from support.flavors import both_flavors, open_once
from support.proxy import Proxy
from support.workers import wait_for

SLOW_SCRIPT = """
local began = redis.call('TIME')
while true do
    local now = redis.call('TIME')
    if (now[1] - began[1]) * 1000000 + now[2] - began[2] > 900000 then return 1 end
end
"""


@contextlib.contextmanager
def frozen(server):
    server.pause()
    try:
        yield
    finally:
        server.resume()


@both_flavors
@pytest.mark.parametrize("on_abandoned", ["rerun", "hold"])
def test_a_claim_whose_caller_gave_up_is_not_granted_by_a_server_that_wakes_up(
    own_redis, flavor, on_abandoned
):
    server = own_redis()
    with Once(server.url, on_abandoned=on_abandoned) as other:
        other.run("warm", int)
        with open_once(flavor, f"{server.url}?timeout=500ms", on_abandoned=on_abandoned) as once:
            once.run("warm too", int)
            with frozen(server), pytest.raises(StoreUnavailable):
                once.run("key", lambda: "never")
        # That guard is gone, and nobody is there to hand anything back.
        assert other.get("key") is None
        assert other.run("key", lambda: "ran") == "ran"


@both_flavors
def test_a_server_whose_clock_was_set_is_asked_for_it_and_goes_on(own_redis, flavor, monkeypatch):
    """As after a step of the server's clock: what is known of it is wrong, and the next claim is in time all the same."""
    server = own_redis()
    with open_once(flavor, server.url) as once:
        once.run("warm", int)
        real = time.monotonic
        monkeypatch.setattr(
            time, "monotonic", lambda: real() - 30.0
        )  # the server's clock seems to have jumped ahead
        assert once.run("key", lambda: "ran") == "ran"


@both_flavors
def test_a_failure_is_recorded_when_the_server_is_back(own_redis, flavor):
    server = own_redis()
    with (
        open_once(flavor, f"{server.url}?timeout=500ms", on_abandoned="hold") as once,
        Once(server.url) as other,
    ):
        other.get("warm")

        def work():
            server.pause()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            once.run("key", work)
        server.resume()
        wait_for(lambda: other.get("key").state == "failed", what="the failure to be recorded")


@both_flavors
def test_a_result_survives_a_server_with_too_few_replicas_for_a_moment(own_redis, flavor):
    primary = own_redis(options={"min-replicas-to-write": 1, "repl-diskless-sync-delay": 0})
    replica = own_redis(options={"replicaof": f"127.0.0.1 {primary.port}"})
    with open_once(flavor, primary.url) as once:
        wait_for(lambda: _writable(once), what="the replica to follow")
        back = threading.Timer(0.5, replica.start)

        def work():
            replica.kill()
            wait_for(lambda: not _writable(once), what="the primary to miss its replica")
            back.start()
            return "receipt"

        assert once.run("key", work) == "receipt"
        back.join()
        assert once.run("key", lambda: "again") == "receipt"


def _writable(once):
    try:
        once.check()
    except StoreUnavailable:
        return False
    return True


@both_flavors
def test_a_result_survives_somebodys_script_that_takes_long(own_redis, flavor):
    server = own_redis(options={"busy-reply-threshold": 50})
    with open_once(flavor, server.url) as once:
        once.run("warm", int)

        def occupy():
            with server.connect() as resp:
                resp.call("EVAL", SLOW_SCRIPT, "0")

        occupying = threading.Thread(target=occupy)

        def work():
            occupying.start()
            wait_for(lambda: not _writable(once), what="the server to be busy")
            return "receipt"

        assert once.run("key", work) == "receipt"
        occupying.join()
        assert once.run("key", lambda: "again") == "receipt"


@both_flavors
def test_a_result_survives_a_failed_snapshot(own_redis, flavor):
    server = own_redis(options={"save": "3600 1", "stop-writes-on-bgsave-error": "yes"})
    with open_once(flavor, server.url) as once:
        once.run("warm", int)
        in_the_way = server.home / "dump.rdb"

        def mend():
            in_the_way.rmdir()
            with server.connect() as resp:
                resp.call("BGSAVE")

        mending = threading.Timer(0.5, mend)

        def work():
            in_the_way.unlink(missing_ok=True)
            in_the_way.mkdir()
            with server.connect() as resp:
                resp.call("BGSAVE")
            wait_for(lambda: not _writable(once), what="the snapshot to fail")
            mending.start()
            return "receipt"

        assert once.run("key", work) == "receipt"
        mending.join()
        assert once.run("key", lambda: "again") == "receipt"


async def test_a_client_told_to_send_again_is_served_when_the_store_is_back(own_redis):
    server = own_redis()

    async def endpoint(request):
        return PlainTextResponse("done")

    @contextlib.asynccontextmanager
    async def worker():
        app = Starlette(routes=[Route("/pay", endpoint, methods=["POST"])])
        async with AsyncOnce(f"{server.url}?timeout=500ms") as once:
            app.add_middleware(IdempotencyMiddleware, store=once, scope=SHARED)
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
                yield client

    async with worker() as one, worker() as two:
        for client in (one, two):
            await client.post("/pay", headers={"Idempotency-Key": "warm"})
        with frozen(server):
            assert (await one.post("/pay", headers={"Idempotency-Key": "key"})).status_code == 503
        for client in (two, two, one):
            answer = await client.post("/pay", headers={"Idempotency-Key": "key"})
            assert (answer.status_code, answer.text) == (200, "done")


FAULTS = ["frozen", "cut off", "restarted"]


@both_flavors
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.server(name)) for name in ("redis", "postgres")]
)
def test_under_load_a_fault_leaves_no_key_that_nobody_works_on_and_forgets_no_work(
    request, name, fault, flavor
):
    server = request.getfixturevalue(f"own_{name}")(**({"appendonly": True} if name == "redis" else {}))
    done, refused, stop = [], [], threading.Event()

    def caller(once, me):
        number = 0
        while not stop.is_set():
            number += 1
            key = f"{me}-{number}"
            try:
                done.append(once.run(key, str, key))
            except StoreUnavailable:
                refused.append(key)

    def wait_for_more(among, count=20):
        already = len(among)
        wait_for(lambda: len(among) >= already + count, what=f"{count} more calls")

    with (
        contextlib.closing(Proxy(server.url)) as proxy,
        open_once(flavor, f"{proxy.url}?timeout=500ms", on_abandoned="hold", lease="60s") as once,
    ):
        once.run("warm", int)
        threads = [threading.Thread(target=caller, args=(once, me)) for me in range(6)]
        for thread in threads:
            thread.start()
        wait_for_more(done)
        if fault == "frozen":
            with frozen(server):
                time.sleep(1.2)  # longer than a call waits
        elif fault == "cut off":
            proxy.forget()
        else:
            server.kill()
            server.start()
        wait_for_more(done, 100)
        stop.set()
        for thread in threads:
            thread.join()
        with Once(server.url, on_abandoned="hold") as other:
            wait_for(lambda: not _open(other), what="every claim to be done or handed back")
            assert all(other.attempt(key, str, key).replayed for key in done)
            assert all(other.attempt(key, str, key).value for key in refused)


def _open(once):
    records = once.stats().records
    return records.get("running", 0) + records.get("held", 0) + records.get("abandoned", 0)
