"""One failing message of a batch: the others are done, in few transactions, and the failing one alone comes again."""

import pytest
from brokers_places import message

from dupeproof.brokers.base import Message, Reject

MANY = 60
NO = ValueError("no")


def bodies(ledger) -> list[str]:
    return [row[2] for row in ledger.rows()]


@pytest.fixture
def failing(handler, is_async):
    """The usual handler, which then raises for some: what it wrote before must be undone."""

    def make(fails, error=NO):
        calls: list[str] = []

        def judge(each):
            calls.append(each.id)
            if fails(each, calls.count(each.id)):
                raise error

        def work(each, connection):
            handler(each, connection)
            judge(each)

        async def work_async(each, connection):
            await handler(each, connection)
            judge(each)

        return (work_async if is_async else work), calls

    return make


def test_one_that_fails_leaves_the_others_of_its_batch_done_and_comes_again(
    place, queue, ledger, inbox, run, until, failing, is_async
):
    work, _ = failing(lambda each, attempt: each.body == b"bad" and attempt < 3)
    sent = [message(queue, f"m-{n}", b"bad" if n % 20 == 7 else b"%d" % n) for n in range(MANY)]
    assert not any(place.publish(*sent, is_async=is_async))
    running = run(place.consumer(queue, work, inbox=inbox, backoff="20ms"))
    until(lambda: running.tally.done == MANY or running.ended, lambda: (running.tally, running.error))
    running.stop()
    assert ledger.counts() == {f"m-{n}": 1 for n in range(MANY)}
    assert running.tally.dead == 0
    assert running.tally.retried == 0 or running.tally.retried >= 3


def test_what_is_rejected_is_dead_lettered_and_leaves_no_mark(
    place, queue, ledger, inbox, run, until, failing, is_async
):
    work, _ = failing(lambda each, _: each.body == b"bad", Reject("never"))
    sent = [message(queue, f"m-{n}", b"bad" if n in (3, 30, 31) else b"%d" % n) for n in range(MANY)]
    assert not any(place.publish(*sent, is_async=is_async))
    running = run(place.consumer(queue, work, inbox=inbox))
    until(
        lambda: running.tally.done + running.tally.dead == MANY or running.ended,
        lambda: (running.tally, running.error),
    )
    running.stop()
    assert running.tally.dead == 3
    assert set(ledger.counts()) == {f"m-{n}" for n in range(MANY) if n not in (3, 30, 31)}
    assert max(ledger.counts().values()) == 1
    # Sent again by someone who has mended them, they are no duplicates.
    mended = [message(queue, f"m-{n}", b"good") for n in (3, 30, 31)]
    assert not any(place.publish_again(*mended, is_async=is_async))
    running = run(place.consumer(queue, work, inbox=inbox))
    until(lambda: running.tally.done == 3 or running.ended, lambda: (running.tally, running.error))
    running.stop()
    assert set(ledger.counts()) == {f"m-{n}" for n in range(MANY)}


@pytest.mark.server("rabbitmq", "postgres")
class TestIsolation:
    """On one broker; the work is the same on all."""

    @pytest.fixture
    def place(self, rabbit):
        return rabbit

    def test_an_error_of_the_database_spoils_only_its_own_message(
        self, place, queue, ledger, inbox, run, until, handler, is_async
    ):
        """PostgreSQL refuses every statement after one that failed, until something is rolled back."""

        def text(each):
            return "SELECT 1/0" if each.body == b"bad" else "SELECT 1"

        def work(each, connection):
            handler(each, connection)
            connection.execute(text(each))

        async def work_async(each, connection):
            await handler(each, connection)
            await connection.execute(text(each))

        sent = [message(queue, f"m-{n}", b"bad" if n in (5, 6, 44) else b"%d" % n) for n in range(MANY)]
        assert not any(place.publish(*sent))
        consumer = place.consumer(
            queue, work_async if is_async else work, inbox=inbox, backoff="5ms", max_attempts=2
        )
        running = run(consumer)
        until(lambda: running.tally.dead == 3 or running.ended, lambda: (running.tally, running.error))
        until(lambda: running.tally.done == MANY - 3, lambda: running.tally)
        running.stop()
        assert ledger.counts() == {f"m-{n}": 1 for n in range(MANY) if n not in (5, 6, 44)}

    def test_few_handlers_run_again_for_one_that_fails(
        self, place, queue, ledger, inbox, run, until, failing, is_async
    ):
        work, calls = failing(lambda each, attempt: each.body == b"bad", Reject("never"))
        bad = {n for n in range(600) if n % 100 == 50}
        sent = [message(queue, f"m-{n}", b"bad" if n in bad else b"%d" % n) for n in range(600)]
        assert not any(place.publish(*sent))
        running = run(place.consumer(queue, work, inbox=inbox, batch=100))
        until(lambda: running.tally.done == 594 or running.ended, lambda: (running.tally, running.error))
        running.stop()
        # Of the first batch all up to the bad one, twice at most; of each other only what shares its part.
        assert len(calls) < 600 + 100 + 6 * 20
        assert ledger.counts() == {f"m-{n}": 1 for n in range(600) if n not in bad}

    def test_a_duplicate_in_the_same_batch_does_not_hide_one_that_failed(
        self, place, queue, ledger, inbox, run, until, failing, is_async
    ):
        work, _ = failing(lambda each, attempt: each.id == "m-7" and attempt < 2)
        sent = [message(queue, f"m-{n}") for n in (*range(20), 7, 7, *range(5))]
        for each in sent:
            assert place.publish(each) == [None]
        running = run(place.consumer(queue, work, inbox=inbox, backoff="20ms"))
        until(lambda: running.tally.done == 20 or running.ended, lambda: (running.tally, running.error))
        running.stop()
        assert ledger.counts() == {f"m-{n}": 1 for n in range(20)}

    def test_sessions_of_sqlalchemy_are_isolated_too(
        self, place, queue, postgres_module_url, ledger, run, until
    ):
        """A session keeps in memory what a savepoint undoes; so its batch is split around the bad one."""
        from sqlalchemy import create_engine, text
        from sqlalchemy.orm import sessionmaker

        from dupeproof import Inbox

        engine = create_engine(postgres_module_url.replace("postgresql://", "postgresql+psycopg://"))

        def work(each, session):
            session.execute(text("INSERT INTO effects (message_id) VALUES (:id)"), {"id": each.id})
            if each.body == b"bad":
                session.execute(text("SELECT 1/0"))

        sent = [message(queue, f"m-{n}", b"bad" if n in (5, 6, 44) else b"%d" % n) for n in range(MANY)]
        assert not any(place.publish(*sent))
        sessions = Inbox(queue, database=sessionmaker(engine))
        running = run(place.consumer(queue, work, inbox=sessions, backoff="5ms", max_attempts=2))
        until(lambda: running.tally.dead == 3 or running.ended, lambda: (running.tally, running.error))
        until(lambda: running.tally.done == MANY - 3, lambda: running.tally)
        running.stop()
        engine.dispose()
        assert ledger.counts() == {f"m-{n}": 1 for n in range(MANY) if n not in (5, 6, 44)}


@pytest.mark.server("rabbitmq", "postgres")
def test_messages_without_ids_are_done_once_beside_two_that_fail(rabbit, postgres_module_url, run, until):
    """Done again with a neighbour they would be done twice: nothing marks them."""
    from brokers_ledgers import PostgresLedger
    from brokers_places import new_queue
    from sqlalchemy import create_engine, text
    from sqlalchemy.orm import sessionmaker

    from dupeproof import Inbox

    ledger, queue = PostgresLedger(postgres_module_url), new_queue()
    ledger.empty()
    rabbit.declare(queue)
    engine = create_engine(postgres_module_url.replace("postgresql://", "postgresql+psycopg://"))
    for body in (b"good", b"bad", b"bad"):
        rabbit.send_raw(queue, body, {})

    def work(each, session):
        session.execute(text("INSERT INTO effects (body) VALUES (:body)"), {"body": each.body.decode()})
        if each.body == b"bad":
            raise ValueError("no")

    inbox = Inbox(queue, database=sessionmaker(engine))
    running = run(rabbit.consumer(queue, work, inbox=inbox, missing_id="pass", backoff="5ms", max_attempts=2))
    until(lambda: running.tally.dead == 2 or running.ended, lambda: (running.tally, running.error))
    running.stop()
    engine.dispose()
    assert bodies(ledger) == ["good"]


@pytest.mark.server("mariadb")
def test_mariadb_isolates_a_failing_message_too(mariadb_url, run, until):
    from brokers_places import MemoryPlace, new_queue
    from sqlalchemy import create_engine, text

    from dupeproof import Inbox

    place, queue = MemoryPlace(), new_queue()
    place.declare(queue)
    engine = create_engine(mariadb_url.replace("mysql://", "mysql+pymysql://"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE effects (message_id varchar(40)) ENGINE=InnoDB"))
        Inbox(queue).create_schema(connection)

    def work(each, connection):
        connection.execute(text("INSERT INTO effects VALUES (:id)"), {"id": each.id})
        if each.body == b"bad":
            connection.execute(text("SELECT no_such_column FROM effects"))

    sent = [message(queue, f"m-{n}", b"bad" if n in (5, 6, 44) else b"%d" % n) for n in range(MANY)]
    assert not any(place.publish(*sent))
    running = run(
        place.consumer(queue, work, inbox=Inbox(queue, database=engine), backoff="5ms", max_attempts=2)
    )
    until(lambda: running.tally.dead == 3 or running.ended, lambda: (running.tally, running.error))
    until(lambda: running.tally.done == MANY - 3, lambda: running.tally)
    running.stop()
    with engine.connect() as connection:
        rows = [ident for (ident,) in connection.execute(text("SELECT message_id FROM effects"))]
    engine.dispose()
    assert sorted(rows) == sorted(f"m-{n}" for n in range(MANY) if n not in (5, 6, 44))


def test_a_handler_of_batches_is_given_all_new_messages_at_once(
    place, queue, ledger, inbox, run, until, handler, is_async
):
    sizes: list[int] = []

    def work(messages, connection):
        sizes.append(len(messages))
        for each in messages:
            handler(each, connection)

    async def work_async(messages: list[Message], connection):
        sizes.append(len(messages))
        for each in messages:
            await handler(each, connection)

    sent = [message(queue, f"m-{n}", b"%d" % n) for n in range(MANY)]
    assert not any(place.publish(*sent, is_async=is_async))
    assert not any(place.publish_again(*sent[:10], is_async=is_async))
    running = run(place.consumer(queue, work_async if is_async else work, inbox=inbox))
    until(
        lambda: (running.tally.done == MANY and running.tally.duplicates == 10) or running.ended,
        lambda: (running.tally, running.error),
    )
    running.stop()
    assert ledger.counts() == {f"m-{n}": 1 for n in range(MANY)}
    assert max(sizes) > 1


def test_a_handler_of_batches_that_fails_is_given_halves_until_the_bad_one_is_found(
    place, queue, ledger, inbox, run, until, handler, is_async
):
    def judge(messages):
        if any(each.body == b"bad" for each in messages):
            raise ValueError("one of these")

    def work(messages, connection):
        for each in messages:
            handler(each, connection)
        judge(messages)

    async def work_async(messages, connection):
        for each in messages:
            await handler(each, connection)
        judge(messages)

    sent = [message(queue, f"m-{n}", b"bad" if n == 17 else b"%d" % n) for n in range(MANY)]
    assert not any(place.publish(*sent, is_async=is_async))
    consumer = place.consumer(
        queue, work_async if is_async else work, inbox=inbox, backoff="5ms", max_attempts=2
    )
    running = run(consumer)
    until(
        lambda: (running.tally.done == MANY - 1 and running.tally.dead == 1) or running.ended,
        lambda: (running.tally, running.error),
    )
    running.stop()
    assert ledger.counts() == {f"m-{n}": 1 for n in range(MANY) if n != 17}
