"""A process that consumes, or relays, until SIGTERM: `brokers_stopping.py role flavor broker url queue outbox`."""

import asyncio
import signal
import sys

from brokers_places import PLACES

from dupeproof import AsyncOnce, AsyncRelay, Once, Relay

DRAIN = 2.0


def consumer(place, queue, *, is_async):
    async def handle_async(message):
        print("at work", flush=True)

    def handle(message):
        print("at work", flush=True)

    once = (AsyncOnce if is_async else Once)("memory://", namespace=queue)
    group = {} if place.name == "rabbitmq" else {"group": "readers"}
    return place.consumer(queue, handle_async if is_async else handle, once=once, drain=DRAIN, **group)


def relay(place, outbox, *, is_async):
    kind = AsyncRelay if is_async else Relay
    made = kind(
        f"sqlite:///{outbox}",
        publisher=place.publisher(is_async=is_async),
        drain=DRAIN,
        poll="50ms",
        events=[lambda event: print("at work", flush=True)],
    )
    signal.signal(signal.SIGTERM, lambda *_: made.stop())
    return made


if __name__ == "__main__":
    role, flavor, name, url, queue, outbox = sys.argv[1:]
    is_async = flavor == "async"
    place = PLACES[name](url)
    made = (
        consumer(place, queue, is_async=is_async)
        if role == "consumer"
        else relay(place, outbox, is_async=is_async)
    )
    print("up", flush=True)
    if is_async:
        asyncio.run(made.run())
    else:
        made.run()
