"""`kill -9` at every step of a guarded call, and what the next process finds."""

import time

import pytest

from support.stores import DURABLE, on
from support.workers import wait_for

LEASE = 0.3
UNFINISHED = {
    "won": "",  # after the claim: nothing has happened
    "before": "",
    "during": "half ",
    "after": "half whole\n",  # the gap between the effect and the finish
}
every_unfinished_step = pytest.mark.parametrize("step", UNFINISHED)


def kill_at(step, worker, url, effect, **options):
    """Start a run in another process and kill it there, for certain, not after some time."""
    victim = worker(url, lease=f"{LEASE}s", **options)
    assert victim.run("key", "victim", effect=str(effect), stops=[step]) == {"at": step}
    victim.kill()


@on(*DURABLE)
@every_unfinished_step
def test_under_rerun_an_unfinished_key_runs_again_after_its_lease_and_not_before(url, worker, tmp_path, step):
    effect = tmp_path / "effect"
    effect.touch()
    retry = worker(url, lease=f"{LEASE}s")
    retry.ask(do="state", key="key")  # it has started, and is connected
    kill_at(step, worker, url, effect)
    killed = time.monotonic()
    assert effect.read_text() == UNFINISHED[step]

    answers = []
    wait_for(lambda: answers.append(retry.run("key", "retry", effect=str(effect))) or "value" in answers[-1])
    stuck = time.monotonic() - killed
    assert {each["error"] for each in answers[:-1]} <= {"Busy"}
    assert answers[-1]["attempt"] == 2
    assert answers[-1]["events"] == ["took_over", "finished"]
    assert effect.read_text() == UNFINISHED[step] + "half whole\n"
    assert stuck < LEASE + 1, "no key is stuck for longer than its lease"
    assert retry.run("key", "third")["value"] == "retry"


@on(*DURABLE)
@every_unfinished_step
def test_under_hold_an_unfinished_key_waits_for_someone_to_resolve_or_forget_it(url, worker, tmp_path, step):
    kill_at(step, worker, url, tmp_path / "effect", on_abandoned="hold")
    other = worker(url, on_abandoned="hold")
    assert other.run("key", "other")["error"] in ("Busy", "Held")
    wait_for(lambda: other.ask(do="state", key="key")["state"] == "held", what="the lease to run out")
    assert other.run("key", "other")["error"] == "Held"
    if step == "after":  # the effect is there, so its result can be told
        assert other.ask(do="resolve", key="key", result="by hand")["done"]
        assert other.run("key", "other")["value"] == "by hand"
    else:
        assert other.ask(do="forget", key="key")["done"]
        again = other.run("key", "other")
        assert (again["value"], again["attempt"], again["replayed"]) == ("other", 1, False)


@on(*DURABLE)
@pytest.mark.parametrize("on_abandoned", ["rerun", "hold"])
def test_a_key_whose_owner_was_killed_right_after_the_finish_replays(url, worker, tmp_path, on_abandoned):
    effect = tmp_path / "effect"
    kill_at("finished", worker, url, effect, on_abandoned=on_abandoned)
    other = worker(url, on_abandoned=on_abandoned)
    replayed = other.run("key", "other", effect=str(effect))
    assert (replayed["value"], replayed["replayed"], replayed["attempt"]) == ("victim", True, 1)
    assert effect.read_text() == "half whole\n"
