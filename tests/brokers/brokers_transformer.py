"""A transformer as a program, to be killed: servers, topic in, topic out and group are its arguments."""

import sys
import time

from dupeproof.brokers.kafka import transform
from dupeproof.outbox import Message


def main(servers: str, topic: str, out: str, group: str) -> None:
    def handle(message):
        print(message.id, flush=True)
        time.sleep(0.005)
        yield Message(id=message.id, topic=out, key=message.key, payload=message.body.upper(), headers={})

    transform(
        servers,
        topic,
        handle,
        group=group,
        batch=10,
        transaction_timeout="3s",
        config={"session.timeout.ms": 2_000, "heartbeat.interval.ms": 500},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
