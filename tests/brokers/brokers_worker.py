"""A consumer as a program, to be killed: place, URL, queue, ledger and kind are its arguments."""

import asyncio
import inspect
import sys
import time

from brokers_ledgers import PostgresLedger
from brokers_places import PLACES


def main(
    name: str, url: str, queue: str, database: str, kind: str, pause: str, missing_id: str = "dead"
) -> None:
    ledger = PostgresLedger.__new__(PostgresLedger)
    ledger.url = database
    is_async = kind == "async"

    def handle(message, connection):
        ledger.write(message, connection)
        print(message.body.decode(), flush=True)
        time.sleep(float(pause))

    async def handle_async(message, connection):
        await ledger.write_async(message, connection)
        await asyncio.sleep(float(pause))

    place = PLACES[name](url)
    inbox = ledger.inbox(is_async=is_async, group=queue)
    consumer = place.consumer(
        queue,
        handle_async if is_async else handle,
        inbox=inbox,
        concurrency=2,
        batch=4,
        backoff="100ms",
        missing_id=missing_id,
    )
    result = consumer.run()
    if inspect.iscoroutine(result):
        asyncio.run(result)
    print("drained", consumer.tally.done, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
