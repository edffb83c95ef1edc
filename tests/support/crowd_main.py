"""The program of a crowd: many processes that start on the same keys at the same moment.

One process imports everything and forks before it opens anything, so the members are strangers to each other.
"""

import json
import os
import sys
import time
from pathlib import Path

from dupeproof import Busy, Once

RAN = "ran"
BUSY = "busy"


def note(ledger: Path, *words: object) -> None:
    """One line, whole, whoever else writes: appending is atomic."""
    with ledger.open("ab", buffering=0) as file:
        file.write(" ".join(map(str, words)).encode() + b"\n")


def work(ledger: Path, key: str, linger_until_busy: int) -> str:
    note(ledger, RAN, key, os.getpid())
    deadline = time.monotonic() + 20
    while ledger.read_text().count(BUSY) < linger_until_busy and time.monotonic() < deadline:
        time.sleep(0.005)
    return f"made by {os.getpid()}"


def member(order: dict, gate: int) -> None:
    ledger = Path(order["ledger"])
    once = Once(order["url"], **order["options"])
    os.read(gate, 1)  # the end of the pipe comes to all members at the same moment
    for key in order["keys"]:
        try:
            result = once.attempt(key, lambda key=key: work(ledger, key, order["linger_until_busy"]))
            answer = {"key": key, "value": result.value, "replayed": result.replayed}
        except Busy:
            note(ledger, BUSY, key, os.getpid())
            answer = {"key": key, "error": "Busy"}
        except Exception as error:
            answer = {"key": key, "error": f"{type(error).__name__}: {error}"}
        os.write(1, json.dumps(answer).encode() + b"\n")
    once.close()


def main() -> None:
    order = json.loads(sys.argv[1])
    gate, hold = os.pipe()
    children = []
    for _ in range(order["count"]):
        pid = os.fork()
        if pid == 0:
            os.close(hold)
            status = 1
            try:
                member(order, gate)
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    os.close(hold)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    sys.exit(any(statuses))


if __name__ == "__main__":
    main()
