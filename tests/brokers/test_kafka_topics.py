"""Several topics, patterns, topics that are made anew, and how far behind a consumer is."""

import time

import psycopg
import pytest
from brokers_ledgers import PostgresLedger
from brokers_places import KafkaPlace, message, new_queue
from sqlalchemy import create_engine

from dupeproof import AsyncOnce, Inbox, Once
from dupeproof.brokers.base import UNGUARDED, Ack, Reject
from dupeproof.brokers.errors import Fenced
from dupeproof.brokers.kafka import Transformer, consumer, forward
from dupeproof.brokers.kafka.positions import Positions
from dupeproof.brokers.kafka.reader import Start
from dupeproof.brokers.kafka.source import KafkaSource
from dupeproof.brokers.kafka.topics import Topics
from dupeproof.errors import ConfigError

QUICK = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 500}


@pytest.fixture
def place(kafka_server):
    return KafkaPlace(kafka_server.url)


@pytest.fixture
def ledger(postgres_module_url):
    ledger = PostgresLedger(postgres_module_url)
    ledger.empty()
    return ledger


@pytest.fixture
def prefix():
    return new_queue()


@pytest.fixture
def topics(place, prefix):
    names = [f"{prefix}.a", f"{prefix}.b"]
    for name in names:
        place.declare(name)
    return names


@pytest.fixture
def consume(place, prefix, ledger, run):
    def start(queue, *, is_async=False, handler=None, **options):
        inbox = ledger.inbox(is_async=is_async, group=prefix)
        handler = handler or (ledger.write_async if is_async else ledger.write)
        return run(place.consumer(queue, handler, inbox=inbox, **{"create": False, **options}))

    return start


def bodies(ledger) -> list[str]:
    return sorted(row[2] for row in ledger.rows())


@pytest.mark.parametrize("way", ["list", "pattern", "pattern by the broker"])
def test_several_topics_are_consumed_each_from_its_own_position(
    place, prefix, topics, ledger, consume, until, way, is_async
):
    """Without ids, so that only the positions tell what was done."""
    queue = topics if way == "list" else f"^{prefix}[.].*"
    options = {"missing_id": "pass", "id_of": lambda _: None, "is_async": is_async}
    if way == "pattern by the broker":
        options["config"] = {"group.protocol": "consumer"}
    sent = []

    def send() -> None:
        for topic in topics:
            some = [f"{topic}-{len(sent) + n}" for n in range(5)]
            place.publish(*(message(topic, each, each.encode(), key=each) for each in some))
            sent.extend(some)

    def done() -> bool:
        return len(ledger.rows()) >= len(sent)

    for _ in range(2):
        send()
        running = consume(queue, **options)
        until(done, lambda: len(ledger.rows()))
        running.stop()
    assert bodies(ledger) == sorted(sent)


def test_each_topic_has_its_own_dead_topic_and_a_pattern_leaves_those_out(
    place, prefix, topics, ledger, consume, until
):
    seen = []

    def picky(message, connection):
        seen.append(message.topic)
        if message.body == b"bad":
            raise Reject("never")
        ledger.write(message, connection)

    config = {**QUICK, "topic.metadata.refresh.interval.ms": 300}
    running = consume(f"^{prefix}.*", handler=picky, config=config)
    for topic in topics:
        place.publish(message(topic, f"{topic}-bad", b"bad"))
    until(lambda: running.tally.dead == 2, lambda: (running.tally, running.error))
    late = f"{prefix}.late"
    place.declare(late)
    place.publish(message(late, "late", b"good"))
    until(lambda: late in seen, lambda: (running.tally, seen))  # by when the dead topics were found as well
    until(lambda: bodies(ledger) == ["good"])
    running.stop()
    assert set(seen) == {*topics, late}
    for topic in topics:
        assert [each.value() for each in place.read(f"{topic}.dead", 1)] == [b"bad"]


def test_a_transformer_reads_several_topics(place, topics, prefix, run, until):
    out = new_queue()
    place.declare(out)
    for topic in topics:
        place.publish(*(message(topic, f"{topic}-{n}") for n in range(10)))
    transformer = Transformer(
        place.url, topics, lambda message: [forward(message, out)], group=prefix, config=QUICK
    )
    running = run(transformer)
    until(lambda: transformer.tally.read == 20, lambda: (transformer.tally, running.error))
    running.stop()
    assert len(place.read(out, 20)) == 20


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        ([], "at least one"),
        ("", "must be a text, and not empty"),
        (["a", 3], "must be a text"),
        (["a", "a"], "twice"),
        (5, "must be a text"),
    ],
)
def test_what_is_no_topic_is_refused_when_the_consumer_is_made(queue, reason):
    with pytest.raises(ConfigError, match=reason):
        consumer("127.0.0.1:1", queue, print, once=UNGUARDED)
    with pytest.raises(ConfigError, match=reason):
        Transformer("127.0.0.1:1", queue, print, group="g")


def test_a_pattern_names_nothing_to_create():
    with pytest.raises(ConfigError, match="leave it out"):
        consumer("127.0.0.1:1", "^orders.*", print, once=UNGUARDED, create=True)


def test_a_pattern_that_cannot_be_read_is_an_error(place, run, until):
    running = run(consumer(place.url, "^(orders", print, once=UNGUARDED))
    until(lambda: running.ended)
    assert isinstance(running.error, ConfigError), running.error


# Made anew


def make_anew(place, topic: str) -> None:
    admin = place.admin()
    admin.delete_topics([topic])[topic].result(20)
    for _ in range(100):
        try:
            place.declare(topic, 1)
        except Exception:  # it is not gone yet
            time.sleep(0.1)
        else:
            return


def send(place, topic: str, name: str, count: int) -> list[str]:
    sent = [f"{name}-{n}" for n in range(count)]
    place.publish(*(message(topic, each, each.encode()) for each in sent))
    return sent


@pytest.fixture
def topic(place, prefix):
    place.declare(prefix, 1)
    return prefix


NO_IDS = {"missing_id": "pass", "id_of": lambda _: None}


@pytest.mark.parametrize("count", [3, 30], ids=["shorter", "longer"])
def test_a_topic_made_anew_while_nobody_looked_is_read_from_its_beginning(
    place, topic, ledger, consume, until, caplog, count, is_async
):
    sent = send(place, topic, "old", 10)
    running = consume(topic, is_async=is_async, **NO_IDS)
    until(lambda: bodies(ledger) == sorted(sent), lambda: (running.tally, running.error))
    running.stop()
    make_anew(place, topic)
    sent += send(place, topic, "new", count)
    running = consume(topic, is_async=is_async, **NO_IDS)
    until(lambda: len(ledger.rows()) >= len(sent), lambda: (running.tally, running.error, len(ledger.rows())))
    running.stop()
    assert bodies(ledger) == sorted(sent)
    assert f"The topic {topic} was made anew" in caplog.text


def test_a_topic_made_anew_before_its_id_was_known_is_noticed_by_its_end(
    place, topic, ledger, consume, until, caplog
):
    """As after an upgrade, or on a broker that gives topics no ids."""
    sent = send(place, topic, "old", 10)
    running = consume(topic, **NO_IDS)
    until(lambda: bodies(ledger) == sorted(sent), lambda: (running.tally, running.error))
    running.stop()
    with psycopg.connect(ledger.url, autocommit=True) as connection:
        connection.execute("DELETE FROM dupeproof_topics")
    make_anew(place, topic)
    sent += send(place, topic, "new", 3)
    running = consume(topic, **NO_IDS)
    until(lambda: len(ledger.rows()) >= len(sent), lambda: (running.tally, running.error))
    running.stop()
    sent += send(place, topic, "newer", 20)
    running = consume(topic, **NO_IDS)
    until(lambda: len(ledger.rows()) >= len(sent), lambda: (running.tally, running.error))
    running.stop()
    assert bodies(ledger) == sorted(sent)
    assert caplog.text.count("was made anew: partition") == 1


def test_positions_from_before_ids_were_kept_are_still_good(place, topic, ledger, consume, until, caplog):
    sent = send(place, topic, "old", 10)
    running = consume(topic, **NO_IDS)
    until(lambda: bodies(ledger) == sorted(sent), lambda: (running.tally, running.error))
    running.stop()
    with psycopg.connect(ledger.url, autocommit=True) as connection:
        connection.execute("DELETE FROM dupeproof_topics")
    sent += send(place, topic, "new", 3)
    running = consume(topic, **NO_IDS)
    until(lambda: len(ledger.rows()) >= len(sent), lambda: (running.tally, running.error))
    running.stop()
    assert bodies(ledger) == sorted(sent)
    assert "made anew" not in caplog.text


def test_a_topic_made_anew_while_it_is_consumed_loses_nothing(place, topic, ledger, consume, until):
    """With ids: what came before it was noticed may come twice."""
    sent = send(place, topic, "old", 10)
    running = consume(topic)
    until(lambda: bodies(ledger) == sorted(sent), lambda: (running.tally, running.error))
    make_anew(place, topic)
    sent += send(place, topic, "new", 30)
    until(lambda: len(ledger.rows()) >= len(sent), lambda: (running.tally, running.error, len(ledger.rows())))
    running.stop()
    assert bodies(ledger) == sorted(sent)


class Copying:
    """A transformer that notes what it copies, as the handler of a consumer does."""

    def __init__(self, place, topic, out):
        self.seen = []
        self.made = Transformer(place.url, topic, self._copy, group=topic, config=QUICK)
        self.out = out

    def _copy(self, each):
        self.seen.append(each.id)
        return [forward(each, self.out)]


class Claiming:
    """A consumer under claims, whose positions are Kafka's."""

    def __init__(self, place, topic, is_async, once):
        self.seen = []

        async def note(each):
            self.seen.append(each.id)

        handler = note if is_async else lambda each: self.seen.append(each.id)
        self.made = place.consumer(topic, handler, once=once, group=topic, create=False)


@pytest.fixture(params=["once", "async once", "transformer"])
def reading(request, place, topic, run):
    """Start one whose positions are Kafka's, as often as one likes; what it has seen, and a way to stop it."""
    kind, out = request.param, new_queue()
    place.declare(out, 1)
    once = (AsyncOnce if kind == "async once" else Once)("memory://", namespace=out)

    def start():
        if kind == "transformer":
            found = Copying(place, topic, out)
        else:
            found = Claiming(place, topic, kind == "async once", once)
        found.running = run(found.made)
        return found

    return start


@pytest.mark.parametrize("count", [3, 30], ids=["shorter", "longer"])
def test_a_topic_made_anew_while_nobody_looked_is_read_whole_also_without_an_inbox(
    place, topic, reading, until, count
):
    sent = send(place, topic, "old", 10)
    first = reading()
    until(lambda: first.seen == sent, lambda: (first.seen, first.running.error))
    first.running.stop()
    make_anew(place, topic)
    sent = send(place, topic, "new", count)
    second = reading()
    until(lambda: len(second.seen) >= count, lambda: (second.seen, second.running.error))
    second.running.stop()
    assert second.seen == sent


@pytest.mark.parametrize("count", [3, 30], ids=["shorter", "longer"])
def test_a_topic_made_anew_while_it_is_read_is_read_whole_also_without_an_inbox(
    place, topic, reading, until, count
):
    sent = send(place, topic, "old", 10)
    found = reading()
    until(lambda: found.seen == sent, lambda: (found.seen, found.running.error))
    make_anew(place, topic)
    sent += send(place, topic, "new", count)
    until(lambda: set(found.seen) >= set(sent), lambda: (found.seen, found.running.error))
    found.running.stop()
    assert sorted(set(found.seen)) == sorted(sent)


@pytest.mark.parametrize("database", ["sqlite", pytest.param("mariadb", marks=pytest.mark.server("mariadb"))])
def test_positions_and_the_ids_of_their_topics_are_kept_on_other_databases_too(request, tmp_path, database):
    if database == "sqlite":
        engine = create_engine(f"sqlite:///{tmp_path / 'positions.db'}")
    else:
        engine = create_engine(request.getfixturevalue("mariadb_url").replace("mysql:", "mysql+pymysql:"))
    inbox, place = Inbox("billing", database=engine), ("orders", 0)
    with engine.begin() as connection:
        inbox.create_schema(connection)
    positions = Positions(inbox)
    assert positions.take({place: "first"}, "me") == {place: Start(-1, had=False)}
    with inbox.transaction() as connection:
        positions.record(connection, {place: (7, "me")})
    assert positions.take({place: "first"}, "you") == {place: Start(7, had=True)}
    with pytest.raises(Fenced), inbox.transaction() as connection:
        positions.record(connection, {place: (8, "me")})
    assert positions.take({place: ""}, "you") == {place: Start(7, had=True, sure=False)}
    assert positions.take({place: "second"}, "you") == {place: Start(0, had=True, anew=True)}
    assert positions.take({place: "second"}, "you") == {place: Start(0, had=True)}
    positions.confirm({place: (0, "third")}, "somebody else")
    assert positions.take({place: "second"}, "you") == {place: Start(0, had=True)}
    positions.confirm({place: (0, "third")}, "you")
    assert positions.take({place: "third"}, "you") == {place: Start(0, had=True)}
    engine.dispose()


# How far behind


def test_a_source_tells_how_many_messages_are_not_worked_on_yet(place, topics, until):
    for topic in topics:
        place.publish(*(message(topic, f"{topic}-{n}", key=str(n)) for n in range(20)))
    source = KafkaSource(place.url, Topics(topics), topics[0], create=False, config=QUICK, inbox=None)
    source.open(8)
    held = []

    def look(most: int):
        held.extend(source.poll(most, 0.1))
        return source.lag()

    until(lambda: look(1) == 40, source.lag)
    for _ in range(200):
        if source.lag() == 0:
            break
        held.extend(source.poll(8, 0.1))
        source.acknowledge([(each, Ack()) for each in held])
        held.clear()
    assert source.lag() == 0
    place.publish(message(topics[0], "another"))
    until(lambda: look(0) == 1, source.lag)
    source.close()
