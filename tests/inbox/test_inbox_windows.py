"""Windows: presets, and changes that running consumers follow."""

from datetime import timedelta

import msgspec
import pytest

from dupeproof import ConfigError, Inbox
from dupeproof.cli.app import run
from dupeproof.inbox import WINDOWS, windows
from support.places import kinds, settled


@kinds("sqlite3", "psycopg", "async asyncpg", "sqlalchemy pymysql", "django mysql")
async def test_a_window_changed_in_the_database_is_followed_without_asking_each_time(place, monkeypatch):
    await place.make_schema()
    running, other = place.inbox(window="orders"), place.inbox("shipping", window="1h")
    now = [1_000.0]
    monkeypatch.setattr(windows.time, "monotonic", lambda: now[0])

    async def marked_for(inbox, message):
        async with place.transaction() as connection:
            assert await settled(inbox.first(connection, message)) is True
            return await settled(inbox._window.milliseconds)

    assert await marked_for(running, "a") == 4 * 3_600_000
    async with place.transaction() as connection:
        await settled(place.inbox().change_window(connection, "2h"))
        await settled(place.inbox().change_window(connection, "payments"))
    assert await marked_for(running, "b") == 4 * 3_600_000
    now[0] += 31
    assert await marked_for(running, "c") == 24 * 3_600_000
    assert await marked_for(other, "c") == 3_600_000
    async with place.transaction() as connection:
        assert await settled(running.window(connection)) == timedelta(hours=24)
        await settled(place.inbox().change_window(connection, None))
    now[0] += 31
    assert await marked_for(running, "d") == 4 * 3_600_000


@kinds("psycopg")
async def test_the_window_is_asked_for_once_and_not_with_every_message(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.transaction() as connection:
        inbox.first(connection, "m")
    place.sql("DROP TABLE dupeproof_windows")
    async with place.transaction() as connection:
        assert inbox.first_many(connection, range(10)) == [True] * 10
        assert inbox.first(connection, "n") is True


@kinds("sqlite3", "psycopg", "sqlalchemy pymysql")
async def test_an_inbox_can_purge_on_a_connection(place):
    await place.make_schema()
    async with place.transaction() as connection:
        await settled(place.inbox(window="1ms").first_many(connection, range(20)))
        await settled(place.inbox("lasting").first_many(connection, range(5)))
    async with place.transaction() as connection:
        assert place.inbox().purge(connection, limit=15) == 15
        assert place.inbox().purge(connection) == 5
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(5,)]


def test_the_presets():
    assert WINDOWS == {"payments": "24h", "orders": "4h", "notifications": "15m", "analytics": "5m"}
    with pytest.raises(ConfigError, match="payments, orders, notifications, analytics"):
        Inbox("billing", window="mail")


@kinds("sqlite3", "psycopg")
async def test_the_command_lists_sets_and_gets(place, capsys):
    def command(*words):
        capsys.readouterr()
        code = run(["windows", *words])
        return code, *capsys.readouterr()

    if place.dialect == "postgresql":
        assert command("list", place.url)[0] == 2
        assert "dupeproof schema" in command("list", place.url)[2]
    await place.make_schema()
    assert command("list", place.url)[1].startswith("no group")
    assert command("set", place.url, "billing", "payments")[:2] == (0, "billing: 1d\n")
    assert command("set", place.url, "mail", "90s")[:2] == (0, "mail: 90s\n")
    assert command("get", place.url, "mail")[1].split() == ["mail", "90s"]
    listed = msgspec.json.decode(command("list", place.url, "--json")[1])
    assert {name: facts["window"] for name, facts in listed.items()} == {"billing": 86_400.0, "mail": 90.0}
    assert command("unset", place.url, "mail")[0] == 0
    code, _, complaint = command("get", place.url, "mail")
    assert (code, "its code says" in complaint) == (1, True)
    assert command("set", place.url, "mail", "soon")[0] == 2
    assert command("set", place.url, "mail")[0] == 2
    assert command("list", place.url, "mail")[0] == 2
    assert command("set", place.url, "two words", "1h")[0] == 2
