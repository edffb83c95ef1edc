"""No connection to Redis is left behind: not by a refused greeting, not by a guard closed while it connects."""

import asyncio
import gc
import socket

import pytest

from dupeproof import AsyncOnce, StoreUnavailable
from dupeproof_lab.servers.resp import Resp
from support.workers import wait_for


async def value():
    return "value"


def others(server):
    """How many connections the server has besides the one that asks."""
    with Resp(server.port, password="right") as resp:
        return resp.text("CLIENT", "LIST").count("\n") - 1


async def test_wrong_passwords_leave_no_connections_open(own_redis):
    server = own_redis(options={"requirepass": "right"})
    kept = []
    once = AsyncOnce(f"redis://:wrong@127.0.0.1:{server.port}/0")
    for _ in range(10):
        with pytest.raises(StoreUnavailable) as caught:
            await once.run("key", value)
        kept.append(caught)  # the error, and with it every frame, is still there
    await asyncio.to_thread(wait_for, lambda: others(server) == 0, what="all connections to be closed")
    await once.close()


@pytest.mark.parametrize(
    "scheme", ["redis://:password@127.0.0.1:{}/0", "redis+cluster://:password@127.0.0.1:{}"]
)
async def test_a_guard_closed_while_it_connects_leaves_no_connection_open(scheme):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        once = AsyncOnce(scheme.format(listener.getsockname()[1]) + "?timeout=1s")
        task = asyncio.create_task(once.run("key", value))
        half_open, _ = await asyncio.to_thread(listener.accept)
        with half_open:
            half_open.settimeout(5)
            assert await asyncio.to_thread(half_open.recv, 65536)  # the password, which nobody answers
            await once.close()
            task.cancel()
            with pytest.raises((asyncio.CancelledError, StoreUnavailable)):
                await task
            while await asyncio.to_thread(half_open.recv, 65536):
                continue
    gc.collect()  # a socket nobody closed would warn here


async def test_a_guard_closed_while_it_connects_does_not_cancel_those_who_wait():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        once = AsyncOnce(f"redis://:password@127.0.0.1:{listener.getsockname()[1]}/0?timeout=20s")
        tasks = [asyncio.create_task(once.run(f"key-{number}", value)) for number in range(3)]
        half_open, _ = await asyncio.to_thread(listener.accept)
        with half_open:
            assert await asyncio.to_thread(half_open.recv, 65536)  # the password, which nobody answers
            await once.close()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
        await once.close()
    assert {type(answer) for answer in answers} == {StoreUnavailable}
