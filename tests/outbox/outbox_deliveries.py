"""Relays as processes, and what they have delivered between them."""

import json
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).with_name("outbox_relaying.py")


class Deliveries:
    """One line for each delivery, `key number`, in the order they happened."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "deliveries"
        self.path.touch()
        self.processes: list[subprocess.Popen] = []

    def start(self, url, **options) -> subprocess.Popen:
        options = {"poll": "20ms", "lease": "1s"} | options
        command = [sys.executable, str(PROGRAM), url, str(self.path), json.dumps(options)]
        process = subprocess.Popen(command)
        self.processes.append(process)
        return process

    def at_work(self, process: subprocess.Popen) -> bool:
        return Path(f"{self.path}.{process.pid}").exists()

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    def by_key(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for line in self.lines():
            key, number = line.split()
            found.setdefault(key, []).append(int(number))
        return found

    def firsts(self) -> dict[str, list[int]]:
        """Each message where it was delivered first."""
        return {key: list(dict.fromkeys(numbers)) for key, numbers in self.by_key().items()}

    def duplicates(self) -> int:
        return sum(len(numbers) - len(set(numbers)) for numbers in self.by_key().values())

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def wait_for(condition, seconds=30.0, what="it"):
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not come about"
        time.sleep(0.02)
