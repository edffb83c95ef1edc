"""A Redis of one's own starts, answers, restarts with its data, stalls and dies on request."""

import socket

import pytest

from dupeproof_lab.servers import Redis, ServerFailed, warden
from dupeproof_lab.servers.resp import Resp, RespError


def test_it_answers_on_a_private_port_of_the_loopback(own_redis):
    server = own_redis()
    with server.connect() as resp:
        assert resp.call("SET", "key", "value") == "OK"
        assert resp.call("GET", "key") == "value"
        assert resp.call("CONFIG", "GET", "bind") == ["bind", "127.0.0.1"]
    assert server.url == f"redis://127.0.0.1:{server.port}/0"
    assert server.version[0].isdigit()


def test_with_appendonly_a_kill_and_a_restart_keep_port_and_data(own_redis):
    server = own_redis(appendonly=True)
    port = server.port
    with server.connect() as resp:
        resp.call("SET", "key", "value")
    server.kill()
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    server.start()
    server.restart()
    assert server.port == port
    with server.connect() as resp:
        assert resp.call("GET", "key") == "value"


def test_without_it_a_restart_forgets(own_redis):
    server = own_redis()
    with server.connect() as resp:
        resp.call("SET", "key", "value")
    server.restart()
    with server.connect() as resp:
        assert resp.call("GET", "key") is None


def test_a_paused_server_keeps_its_connections_and_does_not_answer(own_redis):
    server = own_redis()
    with Resp(server.port, timeout=0.3) as resp:
        server.pause()
        with pytest.raises(TimeoutError):
            resp.call("PING")
        server.resume()
    assert server.ready()


def test_options_reach_the_server_and_a_password_the_url(own_redis):
    server = own_redis(options={"maxmemory": "10mb", "requirepass": "secret"})
    with server.connect() as resp:
        assert resp.call("CONFIG", "GET", "maxmemory") == ["maxmemory", "10485760"]
    with Resp(server.port) as resp, pytest.raises(RespError, match="NOAUTH"):
        resp.call("PING")
    assert ":secret@" in server.url


@pytest.mark.server("redis")
def test_stopping_leaves_nothing_and_may_be_repeated():
    server = Redis()
    server.stop()
    server.start()
    home, pid, port = server.home, server.pid, server.port
    server.pause()
    server.stop()
    server.stop()
    assert not warden.running(pid)
    assert not home.exists()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
        pass


def test_a_port_that_was_taken_meanwhile_is_given_up(own_redis):
    other, server = own_redis(), Redis()
    server._port = other.port
    with server:
        assert server.port != other.port
        assert server.ready()
    assert other.ready()


def test_one_that_cannot_start_shows_its_log_and_is_tidied_away(own_redis):
    taken = own_redis().port
    server = Redis(port=taken)
    with pytest.raises(ServerFailed, match="in use"), server:
        pass
    assert server.pid is None
    with pytest.raises(RuntimeError, match="not started"):
        assert server.home
