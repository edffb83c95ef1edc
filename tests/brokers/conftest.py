import contextlib
import threading
import time

import pytest
from brokers_ledgers import PostgresLedger, SqliteLedger
from brokers_places import PLACES, SERVERS, RabbitPlace, new_queue

PATIENCE = 60


def places(names=PLACES):
    return [
        pytest.param(name, marks=[pytest.mark.server(SERVERS[name], "postgres")] if name in SERVERS else [])
        for name in names
    ]


@pytest.fixture(params=places())
def place(request):
    name = request.param
    if name not in SERVERS:
        return PLACES[name]()
    return PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)


@pytest.fixture(params=["sync", "async"])
def is_async(request):
    return request.param == "async"


@pytest.fixture
def rabbit(rabbitmq_server):
    return RabbitPlace(rabbitmq_server.url)


@pytest.fixture
def channel(rabbit):
    channel = rabbit.channel()
    yield channel
    channel.connection.close()


@pytest.fixture
def queue(place):
    name = new_queue()
    place.declare(name)
    return name


@pytest.fixture
def ledger(request, place, tmp_path):
    if type(place).__name__.endswith("MemoryPlace"):
        return SqliteLedger(tmp_path / "ledger.db")
    ledger = PostgresLedger(request.getfixturevalue("postgres_module_url"))
    ledger.empty()
    return ledger


@pytest.fixture
def inbox(ledger, queue, is_async):
    return ledger.inbox(is_async=is_async, group=queue)


@pytest.fixture
def until():
    """Wait for a condition, and say what was there when it did not come."""

    def wait(condition, show=lambda: "") -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain: {show()}"
            time.sleep(0.02)

    return wait


class Running:
    """A consumer in a thread of its own, with a loop of its own where it needs one."""

    def __init__(self, consumer) -> None:
        self.consumer = consumer
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        import asyncio
        import inspect

        try:
            result = self.consumer.run()
            if inspect.iscoroutine(result):
                asyncio.run(result)
        except BaseException as exc:
            self.error = exc

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self.consumer.stop()
        self._thread.join(PATIENCE)
        assert self.ended, "the consumer did not stop"
        if self.error is not None:
            raise self.error

    @property
    def tally(self):
        return self.consumer.tally


@pytest.fixture
def run():
    """Start a consumer; all are stopped when the test is over."""
    with contextlib.ExitStack() as stack:

        def start(consumer) -> Running:
            running = Running(consumer)
            stack.callback(running.consumer.stop)
            return running

        yield start


@pytest.fixture
def handler(ledger, is_async):
    """Writes each message down."""
    return ledger.write_async if is_async else ledger.write


@pytest.fixture
def dead_letters(place, is_async, until, run, tmp_path):
    """What was dead-lettered, read by a consumer like any other."""

    def read(queue: str, expected: int) -> list:
        from dupeproof import Once

        found: list = []
        once = Once("memory://", namespace="readers")
        name = f"{queue}.dead"
        reader = run(place.consumer(name, found.append, once=once, missing_id="pass"))
        until(lambda: len(found) >= expected or reader.ended, lambda: (found, reader.error))
        reader.stop()
        return found

    return read
