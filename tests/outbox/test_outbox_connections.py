"""A message shares the fate of the caller's transaction, on every kind of connection."""

from datetime import UTC, datetime, timedelta

import pytest

from dupeproof import AsyncOutbox, ConfigError, Outbox, Relay
from support.places import kinds, settled

ODD = ["ü" * 1_000, "a'b\"c%s%(x)s:y?$1\\", "\n x", "0", "-", "a,b", "🐘"]


class Failed(Exception):
    """The handler's own."""


def outbox_of(place, **options):
    return (AsyncOutbox if place.is_async else Outbox)(**options)


async def made(place):
    outbox = outbox_of(place)
    for _ in range(2):
        async with place.transaction() as connection:
            await settled(outbox.create_schema(connection))
    return outbox


def published(place):
    got = []
    with Relay(place.url, publisher=got.append) as relay:
        relay.run_once()
    return got


@kinds()
async def test_a_message_is_kept_if_and_only_if_the_work_is(place):
    outbox = await made(place)
    with pytest.raises(Failed):
        async with place.transaction() as connection:
            await settled(outbox.add(connection, topic="orders", payload=1))
            raise Failed
    async with place.transaction() as connection:
        ident = await settled(
            outbox.add(
                connection, topic="ord%s", payload={"a": "é%"}, key="k:1", headers={"h": "?$1"}, type="T"
            )
        )
    [message] = published(place)
    assert (message.id, message.topic, message.key) == (ident, "ord%s", "k:1")
    assert (message.json(), message.headers, message.type) == ({"a": "é%"}, {"h": "?$1"}, "T")
    assert 0 <= message.age < 60


@kinds()
async def test_many_are_added_in_their_order(place):
    outbox = await made(place)
    past = datetime.now(UTC) - timedelta(hours=1)
    rows = [{"topic": "t", "payload": text.encode(), "key": "k", "id": text} for text in ODD]
    rows += [{"topic": "t", "payload": n, "key": "k"} for n in range(1_100)]
    rows += [
        {"topic": "later", "payload": 1, "delay": "1h"},
        {"topic": "late", "payload": 1, "not_before": past},
    ]
    async with place.transaction() as connection:
        ids = await settled(outbox.add_many(connection, rows))
        assert await settled(outbox.add_many(connection, [])) == []
    got = published(place)
    of_key = [message for message in got if message.key == "k"]
    assert [message.id for message in of_key] == ids[:-2]
    assert [message.payload.decode() for message in of_key] == ODD + [str(n) for n in range(1_100)]
    [late] = [message for message in got if message.key is None]
    assert late.topic == "late"
    assert 3_500 < late.age < 3_700
    [(waiting,)] = place.sql("SELECT count(*) FROM dupeproof_outbox")
    assert waiting == 1


@kinds()
async def test_without_a_transaction_it_is_refused(place):
    outbox = await made(place)
    async with place.alone() as connection:
        for refused in (
            lambda: outbox.add(connection, topic="t", payload=1),
            lambda: outbox.add_many(connection, [{"topic": "t", "payload": 1}]),
        ):
            with pytest.raises(ConfigError, match="no transaction"):
                await settled(refused())
    assert place.sql("SELECT count(*) FROM dupeproof_outbox") == [(0,)]


@kinds()
async def test_a_missing_table_names_the_command_and_the_transaction_goes_on(place):
    outbox = outbox_of(place)
    async with place.transaction() as connection:
        with pytest.raises(ConfigError, match=r"dupeproof schema URL --apply"):
            await settled(outbox.add(connection, topic="t", payload=1))
        await settled(outbox.create_schema(connection))
    async with place.transaction() as connection:
        await settled(outbox.add(connection, topic="t", payload=1))
    assert len(published(place)) == 1
