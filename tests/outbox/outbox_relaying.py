"""A relay as a process of its own: appends each message to one file that all relays share, and dies where it is told.

The file is opened for appending and each message is one write, so the order of lines is the order of deliveries.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from dupeproof import Relay
from dupeproof.core.events import Event, Kind


def main() -> None:
    url, path, given = sys.argv[1:]
    options = json.loads(given)
    die_at, after = options.pop("die_at", None), options.pop("after", 0)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    pace, kills = options.pop("pace", 0), options.pop("kills", None)
    done = 0

    def reach(point: str) -> None:
        if point == die_at and done >= after:
            os.kill(os.getpid(), signal.SIGKILL)

    def deliver(message) -> None:
        nonlocal done
        reach("before publishing")
        if message.json() == kills:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pace)
        os.write(file, f"{message.key} {message.json()}\n".encode())
        done += 1
        reach("after publishing")

    class Confirming:
        """The whole batch is with the broker, and nothing is written down yet."""

        def publish(self, messages):
            for message in messages:
                deliver(message)
            reach("before settling")
            return [None] * len(messages)

    def listen(event: Event) -> None:
        if event.kind is Kind.SENT:
            reach("after settling")

    publisher = Confirming() if die_at == "before settling" else deliver
    relay = Relay(url, publisher=publisher, events=[listen], **options)
    signal.signal(signal.SIGTERM, lambda *_: relay.stop())
    Path(f"{path}.{os.getpid()}").touch()
    relay.run()


if __name__ == "__main__":
    main()
