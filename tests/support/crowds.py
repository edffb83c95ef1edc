"""Many processes on the same keys at the same moment, and what each of them got."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

MAIN = Path(__file__).with_name("crowd_main.py")


class Crowd:
    """The answers of all members, and how often each key was really run."""

    def __init__(self, answers: list[dict], runs: Counter[str]) -> None:
        self.answers = answers
        self.runs = runs

    def values(self, key: str) -> set[str]:
        return {each["value"] for each in self.answers if each["key"] == key and "value" in each}

    @property
    def errors(self) -> list[str]:
        return [each["error"] for each in self.answers if "error" in each]


def crowd(
    url: str,
    ledger: Path,
    keys: Sequence[str],
    *,
    count: int = 16,
    linger_until_busy: int = 0,
    **options: object,
) -> Crowd:
    order = {
        "url": url,
        "ledger": str(ledger),
        "keys": list(keys),
        "count": count,
        "linger_until_busy": linger_until_busy,
        "options": options,
    }
    ledger.touch()
    done = subprocess.run(
        [sys.executable, "-W", "error", str(MAIN), json.dumps(order)],
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    ran = Counter(line.split()[1] for line in ledger.read_text().splitlines() if line.split()[0] == "ran")
    return Crowd([json.loads(line) for line in done.stdout.splitlines()], ran)
