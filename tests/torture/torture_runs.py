"""Short runs, one for each broker, and what a sabotaged library makes of them; `make torture` has the long ones."""

import os
from collections.abc import Sequence
from pathlib import Path

FREEZES = ("--messages", "100", "--kills", "0", "--seed", "5")
"""On servers that are given, and so not restarted: a consumer that outlives its session, in half the time."""
SABOTAGE = Path(__file__).parent / "sabotage"
RUNS = {
    "memory": ("--messages", "300", "--kills", "2", "--seed", "3"),
    "rabbitmq": ("--messages", "500", "--kills", "2", "--seed", "5"),
    "kafka": ("--messages", "400", "--kills", "1", "--seed", "5"),
    "redis": ("--messages", "400", "--kills", "2", "--seed", "5"),
    "nats": ("--messages", "500", "--kills", "2", "--seed", "5"),
}


def caught(torture, monkeypatch, broker: str, name: str, wrong: str, run: Sequence[str] = ()) -> None:
    """That a sabotage of this name is found by the run of this broker, as what it makes wrong."""
    monkeypatch.setenv("PYTHONPATH", str(SABOTAGE), prepend=os.pathsep)
    monkeypatch.setenv("TORTURE_SABOTAGE", name)
    code, found = torture("--broker", broker, *(run or RUNS[broker]))
    assert (code, found["exact"]) == (1, False)
    assert found[wrong] > 0
