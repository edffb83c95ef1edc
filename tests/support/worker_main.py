"""The program of a worker process: guarded calls whose every step can wait for a word from the test.

Speaks JSON lines. An order names what to `do`; `stops` are the steps at which a run says where it is and waits:
the events of the guard ("won", "finished") and the steps of the effect ("before", "during", "after").

Started as a nursery it imports everything once and forks a worker for each request, before it has opened anything:
a worker then starts in milliseconds. The test hands over the worker's end of a socket.
"""

import datetime as dt
import importlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from dupeproof import DupeproofError, Once
from dupeproof.core.events import Event


class Worker:
    def __init__(self, line: socket.socket, url: str, **options: object) -> None:
        self.line = line.makefile("rw")
        self.stops: set[str] = set()
        self.events: list[str] = []
        self.once = Once(url, events=[self.listen], **options)

    def listen(self, event: Event) -> None:
        self.events.append(str(event.kind))
        self.stop(str(event.kind))

    def stop(self, step: str) -> None:
        if step in self.stops:
            self.say(at=step)
            self.heard()

    def say(self, **what: object) -> None:
        self.line.write(json.dumps(what) + "\n")
        self.line.flush()

    def heard(self) -> dict:
        line = self.line.readline()
        if not line:
            os._exit(0)  # the test is over
        return json.loads(line)

    def serve(self) -> None:
        self.say(pid=os.getpid())
        while True:
            self.say(**self.obey(self.heard()))

    def obey(self, order: dict) -> dict:
        self.events.clear()
        self.stops = set(order.pop("stops", ()))
        try:
            answer = getattr(self, "do_" + order.pop("do"))(**order)
        except DupeproofError as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        return {**answer, "events": list(self.events)}

    def do_run(self, key: str, value: object = None, effect: str | None = None) -> dict:
        def work():
            self.stop("before")
            if effect is not None:
                with Path(effect).open("a") as file:
                    file.write("half ")
                    file.flush()
                    self.stop("during")
                    file.write("whole\n")
            self.stop("after")
            return value

        result = self.once.attempt(key, work)
        return {"value": result.value, "replayed": result.replayed, "attempt": result.attempt}

    def do_burn(self, key: str, seconds: float) -> dict:
        """Run a handler that does nothing but keep the interpreter busy."""

        def burn():
            self.stop("before")
            until = time.monotonic() + seconds
            turns = 0
            while time.monotonic() < until:
                turns += 1
            return turns > 0

        return {"value": self.once.run(key, burn)}

    def do_seen(self, key: str) -> dict:
        return {"seen": self.once.seen(key)}

    def do_state(self, key: str) -> dict:
        entry = self.once.get(key)
        return {"state": None if entry is None else entry.state}

    def do_resolve(self, key: str, result: object) -> dict:
        return {"done": self.once.resolve(key, result)}

    def do_forget(self, key: str) -> dict:
        return {"done": self.once.forget(key)}

    def do_clock(self) -> dict:
        return {"time": time.time(), "date": dt.datetime.now(dt.UTC).timestamp()}


def nursery(requests: socket.socket) -> None:
    for name in ("sqlite", "redis", "postgres"):
        importlib.import_module(f"dupeproof.stores.{name}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the workers here
    while True:
        request, handed, _, _ = socket.recv_fds(requests, 65536, 1)
        if not request:
            return
        with socket.socket(fileno=handed[0]) as line:
            if os.fork() == 0:
                requests.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                Worker(line, **json.loads(request)).serve()


def main() -> None:
    with socket.socket(fileno=int(sys.argv[2])) as line:
        if sys.argv[1] == "nursery":
            nursery(line)
        else:
            Worker(line, **json.loads(sys.argv[3])).serve()


if __name__ == "__main__":
    main()
