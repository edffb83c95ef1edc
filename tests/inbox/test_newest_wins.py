"""An older message that arrives late does not overwrite what a newer one has written, whatever the order and however many at once."""

import asyncio
import contextlib
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dupeproof import ConfigError, KeyInvalid, KeyMissing, RetryTransaction
from dupeproof.inbox import Recency
from dupeproof.stores import open_store
from support.places import ONE_OF_EACH, engine_transaction, kinds, run_on, settled

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EXAMPLES = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


async def newer(inbox, connection, version, message_id, entity="sub_1"):
    return await settled(inbox.newer(connection, entity=entity, version=version, id=message_id))


@kinds()
async def test_an_older_one_is_stale_and_the_same_one_a_duplicate(place):
    await place.make_schema()
    inbox, other = place.inbox(), place.inbox("shipping")
    async with place.transaction() as connection:
        found = await newer(inbox, connection, 7, "evt_7")
        assert (found.first, found.stale, found.duplicate) == (True, False, False)
        assert found is Recency.FIRST
        assert await newer(inbox, connection, 1, "evt_1", entity="sub_2")
        assert await newer(other, connection, 1, "evt_1")
    async with place.transaction() as connection:
        found = await newer(inbox, connection, 7, "evt_7")
        assert (found.first, found.stale, found.duplicate) == (False, False, True)
        assert not found
        found = await newer(inbox, connection, 6, "evt_6")
        assert (found.first, found.stale, found.duplicate) == (False, True, False)
        assert not found
    async with place.transaction() as connection:
        assert (await newer(inbox, connection, 8, "evt_8")).first
        assert (await newer(inbox, connection, 7, "evt_7")).stale
    assert place.sql("SELECT count(*) FROM dupeproof_entities") == [(3,)]
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(0,)]


@kinds()
async def test_a_version_is_kept_if_and_only_if_the_work_is(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.transaction() as connection:
        assert (await newer(inbox, connection, 1, "evt_1")).first
    with pytest.raises(ZeroDivisionError):
        async with place.transaction() as connection:
            assert (await newer(inbox, connection, 2, "evt_2")).first
            raise ZeroDivisionError
    async with place.transaction() as connection:
        assert (await newer(inbox, connection, 1, "evt_1")).duplicate
        assert (await newer(inbox, connection, 2, "evt_2")).first


@kinds()
async def test_without_a_transaction_it_refuses(place):
    await place.make_schema()
    async with place.alone() as connection:
        for call in (
            lambda: newer(place.inbox(), connection, 1, "evt_1"),
            lambda: settled(place.inbox().forget_entity(connection, "sub_1")),
        ):
            with pytest.raises(ConfigError, match="there is no transaction"):
                await call()
    assert place.sql("SELECT count(*) FROM dupeproof_entities") == [(0,)]


@kinds(*ONE_OF_EACH)
async def test_a_missing_table_says_how_it_is_made(place):
    with pytest.raises(ConfigError, match=r"dupeproof schema URL --apply.*create_schema"):
        async with place.transaction() as connection:
            await settled(place.inbox().forget_entity(connection, "sub_1"))


@kinds(*ONE_OF_EACH)
async def test_a_bad_version_is_refused_before_anything_is_asked(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.transaction() as connection:
        for bad, words in (
            (datetime(2026, 1, 1), "without a time zone"),
            (NOON.date(), "type date"),
            (1.5, "type float"),
            (Decimal(1), "type Decimal"),
            (True, "type bool"),
            (b"7", "type bytes"),
            (1 << 127, "128 bits"),
            ("7", "int\\(version\\)"),
            ("1.10", "int\\(version\\)"),
            ("x" * 256, "255 bytes"),
            ("a\0", "NUL"),
            ("\ud800", "surrogate"),
        ):
            with pytest.raises(KeyInvalid, match=words):
                await newer(inbox, connection, bad, "evt_1")
        for missing in (None, ""):
            with pytest.raises(KeyMissing, match="version"):
                await newer(inbox, connection, missing, "evt_1")
        for entity, ident in ((None, "evt_1"), ("sub_1", None), ("", "evt_1"), (b"sub_1", "evt_1")):
            with pytest.raises(KeyInvalid):
                await newer(inbox, connection, 1, ident, entity=entity)
    assert place.sql("SELECT count(*) FROM dupeproof_entities") == [(0,)]


@kinds(*ONE_OF_EACH)
async def test_versions_of_two_types_have_no_order(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.transaction() as connection:
        assert await newer(inbox, connection, 7, "evt_1")
    with pytest.raises(
        KeyInvalid, match=r"of type int so far, and this one is of type datetime.*forget_entity"
    ):
        async with place.transaction() as connection:
            await newer(inbox, connection, NOON, "evt_2")
    async with place.transaction() as connection:
        assert (await newer(inbox, connection, 7, "evt_1")).duplicate
        inbox.forget_entity(connection, "sub_1")
        assert (await newer(inbox, connection, NOON, "evt_2")).first


@kinds(*ONE_OF_EACH)
async def test_the_same_moment_in_another_time_zone_is_the_same_version(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.transaction() as connection:
        assert (await newer(inbox, connection, NOON, "evt_1")).first
        there = NOON.astimezone(timezone(timedelta(hours=-9)))
        assert (await newer(inbox, connection, there, "evt_1")).duplicate
        assert (await newer(inbox, connection, there - timedelta(microseconds=1), "evt_0")).stale
        assert (await newer(inbox, connection, there + timedelta(microseconds=1), "evt_2")).first


@kinds(*ONE_OF_EACH)
async def test_an_entity_that_has_not_changed_for_the_window_is_forgotten_and_purged(place):
    await place.make_schema()
    brief, lasting = place.inbox("brief", window="1ms"), place.inbox("lasting")
    async with place.transaction() as connection:
        for number in range(5):
            assert await newer(brief, connection, 7, "evt_7", entity=f"sub_{number}")
            assert await newer(lasting, connection, 7, "evt_7", entity=f"sub_{number}")
    await asyncio.sleep(0.05)
    async with place.transaction() as connection:
        assert (await newer(brief, connection, NOON, "evt_1", entity="sub_0")).first
        assert (await newer(lasting, connection, 6, "evt_6", entity="sub_0")).stale
    await asyncio.sleep(0.05)
    async with place.transaction() as connection:
        assert await settled(lasting.purge(connection, limit=2)) == 2
    if place.dialect == "mysql":
        async with place.transaction() as connection:
            assert await settled(lasting.purge(connection)) == 3
    else:
        store = open_store(place.url)
        assert store.purge(100) == 3
        store.close()
    assert place.sql("SELECT count(*) FROM dupeproof_entities") == [(5,)]


@kinds(*ONE_OF_EACH)
async def test_what_came_is_counted_by_group(place):
    await place.make_schema()
    events = []
    inbox = place.inbox(events=[events.append])
    async with place.transaction() as connection:
        for version in (2, 2, 1):
            await newer(inbox, connection, version, f"evt_{version}")
    assert [(each.kind, each.namespace) for each in events] == [
        ("fresh", "billing"),
        ("seen", "billing"),
        ("stale", "billing"),
    ]


# -- in any order --------------------------------------------------------------------------------------------------

MOMENTS = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC))
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    lambda text: not any(letter.isdigit() for letter in text)
)
VERSIONS = st.one_of(
    st.lists(st.integers(-5, 5), min_size=1, max_size=6),
    st.lists(st.integers(-(1 << 127), (1 << 127) - 1), min_size=1, max_size=6),
    st.lists(MOMENTS, min_size=1, max_size=6),
    st.lists(TEXTS, min_size=1, max_size=6),
)


@st.composite
def deliveries(draw):
    """Events, two orders of them with duplicates in, and which of the deliveries fail at first."""
    versions = draw(VERSIONS)
    events = [(version, f"evt_{number}") for number, version in enumerate(versions)]
    again = draw(st.lists(st.sampled_from(events), max_size=4))
    one, other = (draw(st.permutations([*events, *again])) for _ in range(2))
    fails = draw(st.lists(st.booleans(), min_size=len(one), max_size=len(one)))
    return events, one, other, fails


NUMBERS = itertools.count()
ROW = "DELETE FROM effects WHERE entity = '{0}'", "INSERT INTO effects VALUES ('{0}', '{1}')"


async def has_table_of_effects(place):
    await place.make_schema()
    place.sql("DROP TABLE IF EXISTS effects", "CREATE TABLE effects (entity varchar(40), event varchar(40))")


def apply(place, inbox, entity, version, message_id):
    """A handler as users write it, its transaction run again when the database gives way."""
    while True:
        with contextlib.suppress(RetryTransaction), place._transaction(place.url) as connection:
            found = inbox.newer(connection, entity=entity, version=version, id=message_id)
            if found:
                for statement in ROW:
                    asyncio.run(run_on(connection, statement.format(entity, message_id)))
            return found


def last_event(place, entity):
    [(event,)] = place.sql(f"SELECT event FROM effects WHERE entity = '{entity}'")
    return event


@kinds(*ONE_OF_EACH)
def test_in_any_order_the_newest_is_what_stays(place):
    asyncio.run(has_table_of_effects(place))
    inbox = place.inbox()

    @EXAMPLES
    @given(deliveries())
    def check(drawn):
        events, one, other, fails = drawn
        version_of = {event: version for version, event in events}
        left = []
        for order in (one, other):
            entity = f"sub_{next(NUMBERS)}"
            seen = []
            queue = [*zip(order, fails, strict=True)]
            while queue:
                (version, event), failing = queue.pop(0)
                if failing:  # its effect is rolled back, and it comes again behind all others
                    with contextlib.suppress(ZeroDivisionError), place._transaction(place.url) as connection:
                        inbox.newer(connection, entity=entity, version=version, id=event)
                        raise ZeroDivisionError
                    queue.append(((version, event), False))
                    continue
                found = apply(place, inbox, entity, version, event)
                newest = max(seen, default=None)
                if newest is None or version > newest:
                    assert found.first
                elif version < newest:
                    assert found.stale
                seen.append(version)
            left.append(last_event(place, entity))
            assert version_of[left[-1]] == max(version_of.values())
        assert left[0] == left[1]

    check()


@kinds(*ONE_OF_EACH)
def test_of_many_at_once_the_newest_is_what_stays(place):
    """Each delivery goes to a thread of its own choice, so that transactions about one entity meet."""
    asyncio.run(has_table_of_effects(place))
    if place.dialect == "sqlite":
        place.sql("PRAGMA journal_mode = WAL")
    inbox = place.inbox()

    @settings(EXAMPLES, max_examples=4)
    @given(deliveries())
    def check(drawn):
        events, one, other, _ = drawn
        entity = f"sub_{next(NUMBERS)}"
        with ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(
                    lambda each: apply(place, inbox, entity, *each),
                    [pair for both in zip(one, other, strict=True) for pair in both],
                )
            )
        assert sum(found.first for found in answers) >= 1
        version_of = {event: version for version, event in events}
        assert version_of[last_event(place, entity)] == max(version_of.values())

    check()


@kinds(*ONE_OF_EACH, "sqlite3 with BEGIN")
@pytest.mark.parametrize("outcome", ["commit", "rollback"])
async def test_the_second_waits_for_the_fate_of_the_first(place, outcome):
    await place.make_schema()
    if place.dialect == "sqlite":
        place.sql("PRAGMA journal_mode = WAL")
    inbox = place.inbox()
    async with place.transaction() as connection:
        assert await newer(inbox, connection, 1, "evt_1")
    began, answers = threading.Event(), []

    def second():
        with place._transaction(place.url) as connection:
            began.set()
            answers.append(place.inbox().newer(connection, entity="sub_1", version=2, id="evt_2"))

    with contextlib.suppress(ZeroDivisionError):
        async with place.transaction() as connection:
            assert await newer(inbox, connection, 3, "evt_3")
            thread = threading.Thread(target=second)
            thread.start()
            assert began.wait(20)
            thread.join(0.3)
            assert answers == []
            if outcome == "rollback":
                1 // 0
    thread.join(20)
    assert answers == [Recency.STALE if outcome == "commit" else Recency.FIRST]


@kinds("sqlalchemy pymysql")
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
async def test_on_mariadb_an_older_view_does_not_hide_the_version(place, level):
    await place.make_schema()
    inbox = place.inbox()
    place.sql("CREATE TABLE aside (id integer)")
    async with place.transaction() as connection:
        assert await newer(inbox, connection, 1, "evt_1")
    with engine_transaction(place.url, "pymysql", isolation_level=level) as connection:
        connection.exec_driver_sql("SELECT count(*) FROM aside")  # its view of the database begins here
        async with place.transaction() as other:
            assert await newer(inbox, other, 3, "evt_3")
        assert (await newer(inbox, connection, 2, "evt_2")).stale
        assert (await newer(inbox, connection, 3, "evt_3")).duplicate


@kinds("psycopg")
async def test_on_postgresql_an_older_view_is_told_to_run_again(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.transaction() as connection:
        assert await newer(inbox, connection, 1, "evt_1")
    with contextlib.suppress(RetryTransaction), place._transaction(place.url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1")
        async with place.transaction() as other:
            assert await newer(inbox, other, 3, "evt_3")
        found = inbox.newer(connection, entity="sub_1", version=2, id="evt_2")
        pytest.fail(f"it was {found}")
