"""A message is part of the caller's transaction, and what cannot be a message is refused with the fix."""

import sqlite3
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from dupeproof import AsyncOutbox, ConfigError, KeyInvalid, Outbox
from dupeproof.keys import content_id
from dupeproof.outbox import Added


def test_a_message_goes_out_as_it_was_added(box, relay):
    ident = box.outbox.add(
        box.connection,
        topic="orders",
        payload={"order": 7},
        key=7,
        headers={"trace": "é"},
        type="OrderPaid",
    )
    box.connection.commit()
    got = []
    with relay(box.url, publisher=got.append) as running:
        assert running.run_once() == 1
        assert running.run_once() == 0
    [message] = got
    assert (message.id, message.topic, message.key, message.json()) == (ident, "orders", "7", {"order": 7})
    assert (message.headers, message.type, message.attempt) == ({"trace": "é"}, "OrderPaid", 1)
    assert box.waiting() == 0


def test_a_rolled_back_message_was_never_there(box, relay):
    box.outbox.add(box.connection, topic="orders", payload=1)
    box.connection.rollback()
    got = []
    with relay(box.url, publisher=got.append) as running:
        assert running.run_once() == 0
    assert got == []


def test_a_relay_survives_someone_who_empties_all_tables(box, relay):
    box.add(1)
    got = []
    with relay(box.url, publisher=got.append) as running:
        assert running.run_once() == 1
        for table in ("dupeproof_outbox", "dupeproof_outbox_shards", "dupeproof_outbox_failing"):
            box.execute(f"DELETE FROM {table}")
        box.connection.commit()
        assert running.status().sent == 0
        box.add(2)
        assert running.run_once() == 1


@pytest.mark.parametrize("payload", [b"", b"\xff\x00", 0, "", None, [], {"a": [1, None]}])
def test_payloads_come_out_as_they_went_in(box, relay, payload):
    box.add(payload)
    got = []
    with relay(box.url, publisher=got.append) as running:
        running.run_once()
    assert (got[0].payload if isinstance(payload, bytes) else got[0].json()) == payload


def test_many_are_added_in_their_order(box, relay):
    ids = box.outbox.add_many(
        box.connection,
        [{"topic": "orders", "payload": n, "key": "k"} for n in range(50)]
        + [Added(topic="orders", payload=50, key="k", id="mine")],
    )
    assert box.outbox.add_many(box.connection, []) == []
    box.connection.commit()
    got = []
    with relay(box.url, publisher=got.append, batch=7) as running:
        assert running.run_once() == 51
    assert [message.json() for message in got] == list(range(51))
    assert [message.id for message in got] == ids
    assert ids[-1] == "mine"


def test_ids_can_follow_from_the_content(box):
    outbox = Outbox(ids="content")
    ids = [
        outbox.add(box.connection, topic=topic, payload={"b": 1, "a": 2}, key=key)
        for topic, key in [("orders", "k"), ("orders", "k"), ("other", "k"), ("orders", None)]
    ]
    assert ids[0] == ids[1] == content_id({"a": 2, "b": 1}, context={"topic": "orders", "key": "k"})
    assert len(set(ids)) == 3


def test_debezium_finds_the_columns_it_reads_by_default(box):
    ident = box.add({"n": 1}, key="o-1", type="OrderPaid")[0]
    rows = box.all("SELECT id, aggregatetype, aggregateid, type, payload FROM dupeproof_outbox")
    assert [tuple(map(_plain, row)) for row in rows] == [(ident, "orders", "o-1", "OrderPaid", b'{"n":1}')]


def _plain(value):
    return bytes(value) if isinstance(value, memoryview) else value


def test_without_a_transaction_it_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    outbox = Outbox()
    outbox.create_schema(connection)
    for refused in (
        lambda: outbox.add(connection, topic="t", payload=1),
        lambda: outbox.add_many(connection, [{"topic": "t", "payload": 1}]),
    ):
        with pytest.raises(ConfigError, match=r"BEGIN IMMEDIATE"):
            refused()
    assert connection.execute("SELECT count(*) FROM dupeproof_outbox").fetchone() == (0,)
    connection.execute("BEGIN")
    outbox.add(connection, topic="t", payload=1)
    connection.execute("ROLLBACK")
    connection.close()


def test_without_a_transaction_it_is_refused_on_postgres(postgres_url):
    outbox = Outbox()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        with pytest.raises(ConfigError, match=r"connection\.transaction\(\)"):
            outbox.add(connection, topic="t", payload=1)
        with connection.transaction(), pytest.raises(ConfigError, match="create_schema"):
            outbox.add(connection, topic="t", payload=1)
        outbox.create_schema(connection)
        outbox.create_schema(connection)
        with connection.transaction():
            outbox.add(connection, topic="t", payload=1)


async def test_the_async_outbox_adds_too(postgres_url):
    outbox = AsyncOutbox()
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        await outbox.create_schema(connection)
        one = await outbox.add(connection, topic="t", payload=1, key="k")
        many = await outbox.add_many(connection, [{"topic": "t", "payload": n, "key": "k"} for n in (2, 3)])
        cursor = await connection.execute("SELECT id FROM dupeproof_outbox ORDER BY seq")
        assert [ident for (ident,) in await cursor.fetchall()] == [one, *many]


async def test_the_async_outbox_refuses_what_it_cannot_join(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop.db")
    with pytest.raises(ConfigError, match="AsyncConnection"):
        await AsyncOutbox().add(connection, topic="t", payload=1)
    connection.close()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"payload": {"items": [1, {"price": object()}]}}, r"payload\.items\[1\]\.price"),
        ({"payload": {"a": float("nan")}}, r"payload\.a"),
        ({"payload": b"x" * 1_000_001}, r"at most 1,000,000 .*max_payload"),
        ({"headers": {"a": "x" * 32_768}}, r"at most 32,768 .*max_headers"),
        ({"topic": ""}, "topic"),
        ({"topic": 5}, "topic"),
        ({"topic": "a\nb"}, "topic"),
        ({"headers": {"a": 1}}, r"'a' is a int: use str\(\)"),
        ({"headers": ["a"]}, "dict"),
        ({"delay": "soon"}, "delay"),
        ({"not_before": datetime(2030, 1, 1)}, "time zone"),
        ({"delay": 1, "not_before": datetime(2030, 1, 1, tzinfo=UTC)}, "not both"),
    ],
)
def test_bad_input_says_what_to_do(tmp_path, wrong, text):
    connection = sqlite3.connect(tmp_path / "shop.db")
    Outbox().create_schema(connection)
    with pytest.raises(ConfigError, match=text):
        Outbox().add(connection, **({"topic": "t", "payload": 1} | wrong))
    connection.close()


def test_bad_keys_and_ids_are_refused_without_being_shown(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop.db")
    for wrong in ({"key": "se\0cret"}, {"id": "se\0cret"}, {"key": b"secret"}):
        with pytest.raises(KeyInvalid) as caught:
            Outbox().add(connection, topic="t", payload=1, **wrong)
        assert "cret" not in str(caught.value)
    connection.close()


@pytest.mark.parametrize(
    "options",
    [{"ids": "random"}, {"max_payload": 0}, {"max_payload": "1MB"}, {"max_headers": 0}],
    ids=lambda each: next(iter(each)),
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigError):
        Outbox(**options)


def test_a_message_waits_for_its_time_and_holds_back_nobody(box, relay):
    soon = datetime.now(UTC) + timedelta(seconds=3)
    box.add("later", key="k", delay="3s")
    box.add("at", key="k", not_before=soon)
    box.add("far", key="k", delay="1d")
    box.add("now", key="k")
    got = []
    with relay(box.url, publisher=got.append) as running:
        assert running.run_once() == 1
        assert [message.json() for message in got] == ["now"]
        assert running.status().delayed == 3
        while len(got) < 3:
            running.run_once()
        assert datetime.now(UTC) >= soon
        assert {message.json() for message in got[1:]} == {"later", "at"}
        assert (running.status().delayed, running.status().backlog) == (1, 0)
