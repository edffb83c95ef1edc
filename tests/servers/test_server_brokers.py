"""Brokers of one's own: on the loopback, with a password that counts, durable, and gone without a trace."""

from pathlib import Path

import pytest

from dupeproof_lab.servers import Given, warden
from dupeproof_lab.servers.nats import greeting

BROKERS = ["rabbitmq", "nats", "kafka"]
ALL = [pytest.param(name, marks=pytest.mark.server(name)) for name in BROKERS]

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def listening(pids: list[int]) -> set[str]:
    """Addresses, in hexadecimal, that these processes listen on."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            inodes.add(str(link.readlink()))
    rows = [
        line.split()
        for file in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{file}").read_text().splitlines()
    ]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


@pytest.mark.parametrize("name", ALL)
def test_it_listens_on_the_loopback_only(request, name):
    server = request.getfixturevalue(f"{name}_server")
    assert listening(warden.tree(server.pid)) <= LOOPBACK


@pytest.mark.parametrize("name", ALL[:2])
def test_it_leaves_nothing_behind(request, name):
    server = request.getfixturevalue(f"own_{name}")()
    pids, home = warden.tree(server.pid), server.home
    if name == "rabbitmq":
        pids += warden.tree(server._names.pid)
        server.kill()  # also when the node itself is gone already
    server.stop()
    assert not home.exists()
    assert not any(warden.running(pid) for pid in pids)


@pytest.mark.parametrize("name", ALL)
def test_one_that_is_given_is_asked_and_left_alone(request, name):
    server = request.getfixturevalue(f"{name}_server")
    given = Given(name, server.url)
    assert given.version in (server.version, "?")
    with pytest.raises(RuntimeError, match="not ours"):
        given.kill()


def test_nats_keeps_its_streams_over_a_kill(own_nats):
    server = own_nats()
    port, first = server.port, greeting("127.0.0.1", server.port)["server_id"]
    server.kill()
    server.start()
    assert server.port == port
    assert greeting("127.0.0.1", port)["server_id"] != first
