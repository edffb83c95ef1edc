"""A consumer as a program that a message with the body `kill` kills: place, URL, queue, ledger, kind and attempts."""

import asyncio
import inspect
import os
import signal
import sys

from brokers_ledgers import PostgresLedger
from brokers_places import PLACES

from dupeproof import Once


def die_of(message) -> None:
    if message.body == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)


def main(name: str, url: str, queue: str, database: str, kind: str, attempts: str) -> None:
    options = {"max_attempts": int(attempts), "backoff": "100ms"}
    if kind == "claim":
        consumer = PLACES[name](url).consumer(
            queue, die_of, once=Once(database, namespace=queue, lease="1s"), **options
        )
        consumer.run()
        return
    ledger = PostgresLedger.__new__(PostgresLedger)
    ledger.url = database

    def handle(message, connection):
        die_of(message)
        ledger.write(message, connection)

    async def handle_async(message, connection):
        die_of(message)
        await ledger.write_async(message, connection)

    is_async = kind == "async"
    inbox = ledger.inbox(is_async=is_async, group=queue)
    result = (
        PLACES[name](url).consumer(queue, handle_async if is_async else handle, inbox=inbox, **options).run()
    )
    if inspect.iscoroutine(result):
        asyncio.run(result)


if __name__ == "__main__":
    main(*sys.argv[1:])
