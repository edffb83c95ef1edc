"""A guard carried over a fork: parent and children go on together, and harm neither each other nor the store."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import fork_main
from support.stores import DURABLE, SHARED, on


@pytest.fixture
def tell(url, tmp_path):
    """Runs one story of fork_main.py: what it says, and how often each key ran."""

    def tell(story, *how):
        ledger = tmp_path / "ledger"
        # Forking amid threads is deprecated by Python 3.12, and done all the same by those who preload an application.
        command = [sys.executable, "-W", "error", "-W", "ignore:.*fork:DeprecationWarning"]
        done = subprocess.run(
            [*command, str(Path(fork_main.__file__)), story, url, str(ledger), *how],
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
        )
        return json.loads(done.stdout), Counter(ledger.read_text().split() if ledger.exists() else ())

    return tell


@on(*SHARED)
@pytest.mark.parametrize("how", [[], ["bare"]], ids=["fork", "bare"])
@pytest.mark.parametrize("story", ["together", "tasks"])
def test_parent_and_children_run_each_key_once_and_the_parent_keeps_what_it_had(tell, story, how):
    said, runs = tell(story, *how)
    assert said == {"fine": True, "replayed": True}
    assert runs == dict.fromkeys([*fork_main.KEYS, "before"], 1)


@on(*DURABLE)
def test_a_child_born_while_threads_are_in_the_middle_of_calls_works(tell):
    said, runs = tell("amid_threads")
    assert said == {"fine": True, "failures": []}
    assert runs == {f"child-{number}": 1 for number in range(12)}


@on(*DURABLE)
@pytest.mark.parametrize("how", [[], ["bare"]], ids=["fork", "bare"])
def test_what_a_child_stores_after_its_parent_closed_is_there_for_everyone(tell, how):
    said, runs = tell("orphan", *how)
    assert said == {"fine": True, "replayed": [True, True]}
    assert runs == {"before": 1, "first": 1, "second": 1}


@on("sqlite")
def test_a_child_born_while_the_heartbeat_speaks_works(tell):
    said, _ = tell("amid_heartbeat")
    assert said == {"fine": True}


@on("sqlite")
@pytest.mark.parametrize("how", [[], ["bare"]], ids=["fork", "bare"])
def test_a_child_does_not_keep_the_claim_of_its_dead_parent_alive(tell, how):
    said, _ = tell("heir", *how)
    assert said == {"state": "abandoned"}
