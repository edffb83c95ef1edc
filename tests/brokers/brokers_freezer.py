"""A transformer as a program that stops itself in the middle of a transaction, when a file is there.

Servers, topic in, topic out and the file are its arguments. Its group and its transactional id are called as the topic.
"""

import json
import os
import signal
import sys
from pathlib import Path

from dupeproof.brokers.kafka import Transformer, forward


def main(servers: str, topic: str, out: str, order: str) -> None:
    def look(stats: str) -> None:
        """Called by the library, from inside whatever waits for Kafka."""
        found = json.loads(stats)
        if found.get("eos", {}).get("txn_state") == "InTransaction" and Path(order).exists():
            os.kill(os.getpid(), signal.SIGSTOP)

    transformer = Transformer(
        servers,
        topic,
        lambda message: [forward(message, out)],
        group=topic,
        transactional_id=topic,
        transaction_timeout="2s",
        config={
            "session.timeout.ms": 2_000,
            "heartbeat.interval.ms": 500,
            "statistics.interval.ms": 1,
            "stats_cb": look,
        },
    )
    print("started", flush=True)
    try:
        transformer.run()
    except Exception as exc:
        print(type(exc).__name__, flush=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main(*sys.argv[1:])
