"""How far one walks through the library: the functions and files of one call, and how often the file changes on the way.

    python tools/walks.py                       on servers of its own (dupeproof-lab)
    python tools/walks.py --json
    PYTHONPATH=/other/tree/src python tools/walks.py --postgres URL --redis URL --rabbitmq URL     another tree

Three walks, each with everything warm, so that no import and no connection is counted: a decorated call on PostgreSQL, a
message from RabbitMQ with an inbox, a request to FastAPI with its keys in Redis. Two numbers for each: of one new key.
"""

import argparse
import contextlib
import itertools
import json
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import dupeproof

LIBRARY = str(Path(dupeproof.__file__).parent)


class Walk:
    """The calls into the library while it is recorded, of all threads that began since."""

    def __init__(self, *, others_only: bool = False) -> None:
        self.calls: list[tuple[str, str]] = []
        self._left_out = threading.get_ident() if others_only else None

    def _saw(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(LIBRARY)
            and not code.co_name.startswith("<")
            and threading.get_ident() != self._left_out
        ):
            self.calls.append((code.co_filename, code.co_qualname))

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        sys.setprofile(self._saw)
        threading.setprofile(self._saw)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def summary(self) -> dict[str, int]:
        files = [file for file, _ in self.calls]
        return {
            "functions": len({*self.calls}),
            "files": len({*files}),
            "changes of file": sum(one != other for one, other in itertools.pairwise(files)),
            "calls": len(self.calls),
        }


def decorated_call(urls: dict[str, str]) -> Walk:
    from dupeproof import Once  # noqa: PLC0415 - not for who asks for --help

    with Once(urls["postgres"], namespace=uuid.uuid4().hex) as once:

        @once(key="order_id")
        def charge(order_id: str, amount: int) -> int:
            return amount + len(order_id)

        for number in range(20):
            charge(f"warm-{number}", 1)
        walk = Walk()
        with walk.recorded():
            charge("o-1", 500)
    return walk


def rabbitmq_message(urls: dict[str, str]) -> Walk:
    """From its arrival until it is acknowledged; what the consumer does while nothing comes is left out."""
    import psycopg  # noqa: PLC0415

    from dupeproof import Inbox  # noqa: PLC0415
    from dupeproof.brokers import rabbitmq  # noqa: PLC0415
    from dupeproof.outbox import Message  # noqa: PLC0415

    queue = f"walks-{uuid.uuid4().hex}"
    inbox = Inbox(queue, database=urls["postgres"])
    with psycopg.connect(urls["postgres"]) as connection:
        inbox.create_schema(connection)
    done: list[str] = []

    def handle(message: Any, _connection: Any) -> None:
        done.append(str(message.id))

    walk = Walk(others_only=True)
    idle = set()
    with walk.recorded(), rabbitmq.RabbitPublisher(urls["rabbitmq"]) as publisher:
        consumer = rabbitmq.consumer(urls["rabbitmq"], queue, handle, inbox=inbox, create=True)
        thread = threading.Thread(target=consumer.run)
        thread.start()
        for number in range(5):
            _until(lambda: consumer.health().ok)
            time.sleep(0.1)  # it is through with the one before
            walk.calls.clear()
            time.sleep(0.6)
            idle = {*walk.calls}  # what it does while nothing comes
            walk.calls.clear()
            publisher.publish([Message(id=f"m-{number}", topic=queue, payload=b"{}", key=None, headers={})])
            _until(lambda number=number: consumer.tally.done == number + 1)  # type: ignore[misc]
        calls = [*walk.calls]
        consumer.stop()
        thread.join()
    walk.calls = [call for call in calls if call not in idle]
    return walk


def http_request(urls: dict[str, str]) -> Walk:
    import fastapi  # noqa: PLC0415
    import httpx  # noqa: PLC0415

    from dupeproof.http import SHARED, IdempotencyMiddleware  # noqa: PLC0415

    app = fastapi.FastAPI()
    app.add_middleware(IdempotencyMiddleware, store=urls["redis"], scope=SHARED)

    @app.post("/orders")
    async def take() -> dict[str, int]:
        return {"taken": 1}

    async def ask() -> Walk:
        walk = Walk()
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://walks") as client:
            for _ in range(20):
                await client.post("/orders", headers={"Idempotency-Key": uuid.uuid4().hex})
            with walk.recorded():
                answer = await client.post("/orders", headers={"Idempotency-Key": uuid.uuid4().hex})
        assert answer.status_code == 200, answer.text
        return walk

    import asyncio  # noqa: PLC0415

    return asyncio.run(ask())


WALKS: dict[str, Callable[[dict[str, str]], Walk]] = {
    "decorated call, PostgreSQL": decorated_call,
    "message, RabbitMQ and inbox": rabbitmq_message,
    "request, FastAPI and Redis": http_request,
}


def _until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not condition():
        if time.monotonic() > give_up:
            sys.exit("a walk did not come to its end in 30 s")
        time.sleep(0.01)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for server in ("postgres", "redis", "rabbitmq"):
        parser.add_argument(f"--{server}", metavar="URL")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--calls", action="store_true", help="list them, in order")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        urls = {name: getattr(options, name) for name in ("postgres", "redis", "rabbitmq")}
        if None in urls.values():
            from dupeproof_lab.servers import Postgres, RabbitMQ, Redis  # noqa: PLC0415

            for name, kind in (("postgres", Postgres), ("redis", Redis), ("rabbitmq", RabbitMQ)):
                urls[name] = urls[name] or stack.enter_context(kind()).url
        walks = {name: walk(urls) for name, walk in WALKS.items()}
    if options.json:
        print(json.dumps({name: walk.summary() for name, walk in walks.items()}))
        return 0
    for name, walk in walks.items():
        print(f"{name}: " + ", ".join(f"{number} {what}" for what, number in walk.summary().items()))
        for file, function in walk.calls if options.calls else ():
            print(f"  {file.removeprefix(LIBRARY + '/')}: {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
