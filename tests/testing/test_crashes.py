"""A test can let the process die at a named point, and what comes after finds what a dead process leaves."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from crashes_consumer import MESSAGES, consume

from dupeproof import Busy, ConfigError, Held, Inbox
from dupeproof.guards import claims
from dupeproof.inbox import inbox as inbox_module
from dupeproof.testing import Crashed, crash_at, points, reached
from dupeproof.testing.crashes import VARIABLE
from support.flavors import open_once

CONSUMER = Path(__file__).with_name("crashes_consumer.py")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "shop.db"


@pytest.fixture
def inbox(file):
    connection = sqlite3.connect(file)
    Inbox("billing").create_schema(connection)
    connection.executescript("CREATE TABLE balance (amount integer); INSERT INTO balance VALUES (0)")
    connection.close()
    return Inbox("billing", database=f"sqlite:///{file}")


def balance(file):
    connection = sqlite3.connect(file)
    [(amount,)] = connection.execute("SELECT amount FROM balance")
    connection.close()
    return amount


AFTER_THE_COMMIT = {"after-commit": 1}


@pytest.mark.parametrize("point", ["after-mark", "shop.charged", "before-commit", "after-commit"])
def test_a_message_that_is_delivered_again_after_a_crash_has_its_effect_once(inbox, file, point):
    with pytest.raises(Crashed, match=point), crash_at(point):
        consume(inbox, "m-1")
    assert balance(file) == AFTER_THE_COMMIT.get(point, 0)
    consume(inbox, "m-1")
    assert balance(file) == 1


def test_it_dies_the_time_it_was_asked_to(inbox, file):
    with pytest.raises(Crashed), crash_at("after-commit", 3):
        for message in MESSAGES:
            consume(inbox, message)
    assert balance(file) == 3


@pytest.mark.parametrize(
    ("text", "taken"), [("after-commit", 1), ("after-commit:3", 3), ("shop.charged:2", 1)]
)
def test_a_process_is_killed_where_the_environment_says(inbox, file, text, taken):
    def run(**environment):
        command = [sys.executable, CONSUMER, f"sqlite:///{file}"]
        return subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )

    died = run(**{VARIABLE: text})
    assert died.returncode == -signal.SIGKILL
    assert f"kills itself at {text}" in died.stderr
    assert balance(file) == taken
    assert run().returncode == 0
    assert balance(file) == len(MESSAGES)


def test_a_process_can_kill_itself(inbox, file):
    child = os.fork()
    if child == 0:
        with crash_at("before-commit", kill=True):
            consume(inbox, "m-1")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert balance(file) == 0


# Guards


def run_plainly(once, work):
    return once.run("k", work)


def run_inline(once, work):
    with once.claim("k") as claim:
        if claim.won:
            claim.result = work()
        return claim.result


def run_many(once, work):
    [value] = once.run_many(["k"], lambda _: work())
    return value


def all_forms(test):
    forms = [("sync", run_plainly), ("sync", run_inline), ("sync", run_many), ("async", run_plainly)]
    test = pytest.mark.parametrize(("flavor", "form"), forms)(test)
    return pytest.mark.parametrize("where", ["memory", "sqlite"])(test)


@pytest.fixture
def guarded(flavor, where, form, tmp_path):
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/dedup.db"}[where]
    ran = []

    def work():
        ran.append(1)
        return len(ran)

    def guard(**options):
        return open_once(flavor, url, **options)

    return guard, work, ran


@all_forms
@pytest.mark.parametrize(("point", "runs_before"), [("after-claim", 0), ("after-effect", 1)])
def test_a_crash_before_the_result_is_stored_leaves_the_key_to_its_lease(guarded, form, point, runs_before):
    guard, work, ran = guarded
    with guard(lease="300ms", on_busy="wait") as once:
        with pytest.raises(Crashed), crash_at(point):
            form(once, work)
        assert len(ran) == runs_before
        assert once.get("k").state == "running"
        assert form(once, work) == runs_before + 1  # waits until the lease is over, then runs


@all_forms
def test_a_crash_after_the_result_is_stored_costs_nothing(guarded, form):
    guard, work, ran = guarded
    with guard() as once:
        with pytest.raises(Crashed), crash_at("after-finish"):
            form(once, work)
        assert form(once, work) == 1
        assert len(ran) == 1


def test_a_held_key_stays_held(tmp_path):
    with open_once("sync", f"sqlite:///{tmp_path}/dedup.db", lease="2s", on_abandoned="hold") as once:
        with pytest.raises(Crashed), crash_at("after-effect"):
            once.run("k", lambda: 1)
        with pytest.raises(Busy):
            once.run("k", lambda: 1)
        while once.get("k").state != "held":
            pass
        with pytest.raises(Held):
            once.run("k", lambda: 1)


# Arming


def test_an_unknown_point_is_refused_with_a_list_of_those_there_are():
    with pytest.raises(
        ConfigError, match=r"no crash point 'after-lunch'; there are after-mark, before-commit"
    ):
        crash_at("after-lunch").__enter__()
    died = subprocess.run(
        [sys.executable, "-c", "from dupeproof import Once"],
        env={**os.environ, VARIABLE: "after-lunch"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == 1
    assert "there are after-mark" in died.stderr


@pytest.mark.parametrize("text", ["after-commit:", "after-commit:x", "after-commit:0", ":"])
def test_what_cannot_be_read_in_the_environment_is_refused(text):
    died = subprocess.run(
        [sys.executable, "-c", "from dupeproof import Once"],
        env={**os.environ, VARIABLE: text},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ConfigError" in died.stderr


def test_a_point_that_was_never_reached_fails_the_test():
    with (
        pytest.raises(AssertionError, match=r"'shop\.charged' was reached 1 times of 2"),
        crash_at("shop.charged", 2),
    ):
        reached("shop.charged")
    with pytest.raises(ZeroDivisionError), crash_at("shop.charged"):
        1 // 0
    reached("shop.charged")  # disarmed


def test_a_point_is_armed_once():
    with crash_at("shop.charged", 2), crash_at("shop.sent"):
        with pytest.raises(ConfigError, match="armed already"):
            crash_at("shop.charged").__enter__()
        reached("shop.charged")
        with pytest.raises(Crashed):
            reached("shop.charged")
        with pytest.raises(Crashed):
            reached("shop.sent")


def test_unarmed_points_are_not_even_called(monkeypatch, inbox, file):
    for module in (claims, inbox_module):
        monkeypatch.setattr(module, "reached", None)
    with sqlite3.connect(file) as connection:
        assert Inbox("billing").first(connection, "m-1") is True
    connection.close()
    with open_once("sync", "memory://") as once:
        assert once.run("k", lambda: 1) == 1


def test_every_point_says_what_it_means():
    assert all(points().values())
