"""Torture: what holds passes, what does not is caught, and the same seed does the same again."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from dupeproof_lab.torture.faults import DELIVERY, OVERTAKING, PUBLISH, TRANSACTION, UNNAMED, Fault, course
from dupeproof_lab.torture.ledger import audit, calls_out_of_order
from dupeproof_lab.torture.report import command, headline, pairs, violations
from dupeproof_lab.torture.run import Happened, Outcome, Request

HERE = Path(__file__).parent


def test_the_inbox_holds(torture, tmp_path):
    code, found = torture("--messages", "600", "--kills", "8", "--seed", "3")
    assert (code, found["exact"]) == (0, True)
    assert (found["lost"], found["doubled"], found["out_of_order"]) == (0, 0, 0)
    assert (found["kills"], len(found["faults"])) == (8, 10)
    assert found["struck"]["kill"] == {"inflicted": 8, "struck": 8, "what": {TRANSACTION: 6, DELIVERY: 2}}
    assert found["struck"]["kill_relay"] == {"inflicted": 1, "struck": 1, "what": {PUBLISH: 1}}
    assert (found["missed"], found["passed"]) == ([], True)
    assert found["failed"] >= 6
    assert found["published"] > 600
    assert found["duplicates_removed"] > 0
    assert found["reproduce"] == "dupeproof torture --broker memory --messages 600 --kills 8 --seed 3"
    page = (tmp_path / "out" / "torture.html").read_text()
    assert "every message had its effect once" in page
    assert "8, of which 8 struck: 6 a transaction under way, 2 a delivery in hand" in page
    assert json.loads((tmp_path / "out" / "torture.json").read_text())["exact"] is True


def test_a_handler_that_doubles_is_caught(torture):
    code, found = torture(
        "--messages",
        "300",
        "--kills",
        "3",
        "--handler",
        "torture_handlers:naive",
        "--check",
        "torture_handlers:count",
    )
    assert (code, found["exact"], found["lost"]) == (1, False, 0)
    assert found["doubled"] >= found["published"] - 300 > 0
    assert "--handler torture_handlers:naive" in found["reproduce"]


@pytest.mark.timeout(180)
def test_a_handler_that_loses_is_caught(torture):
    code, found = torture(
        "--messages",
        "300",
        "--kills",
        "2",
        "--handler",
        "torture_handlers:forgetful",
        "--check",
        "torture_handlers:count",
    )
    assert (code, found["lost"], found["doubled"]) == (1, 3, 0)
    assert found["audit"]["lost"] == ["m-0000007", "m-0000107", "m-0000207"]


@pytest.mark.parametrize("handler", ["careful", "careful_task"])
def test_a_handler_that_takes_care_passes(torture, handler):
    code, found = torture(
        "--messages",
        "300",
        "--kills",
        "4",
        "--handler",
        f"torture_handlers:{handler}",
        "--check",
        "torture_handlers:count",
    )
    assert (code, found["exact"]) == (0, True)
    assert (found["out_of_order"], found["missed"]) == (0, [])
    assert found["duplicates_removed"] >= found["published"] - 300 > 0


def test_what_is_tried_again_is_waited_for_and_what_is_put_aside_is_told(torture):
    """Both with messages of the same key behind them, which are not lost."""
    code, found = torture(
        "--messages",
        "300",
        "--kills",
        "0",
        "--concurrency",
        "1",
        "--handler",
        "torture_handlers:stubborn",
        "--check",
        "torture_handlers:count",
    )
    assert (code, found["audit"]["lost"], found["gave_up"]) == (1, ["m-0000005"], False)
    assert "never this one" in found["last_words"][0]


@pytest.mark.server("redis")
def test_an_async_handler_is_awaited_on_a_broker_too(torture, tmp_path):
    code, found = torture(
        "--broker",
        "redis",
        "--database",
        f"sqlite:///{tmp_path}/unused.db",
        "--messages",
        "100",
        "--kills",
        "1",
        "--handler",
        "torture_handlers:careful_task",
        "--check",
        "torture_handlers:count",
    )
    assert (code, found["exact"]) == (0, True)


def test_a_handler_and_a_check_may_print_and_read(torture):
    code, found = torture(
        "--messages",
        "50",
        "--kills",
        "1",
        "--handler",
        "torture_handlers:loud",
        "--check",
        "torture_handlers:loud_count",
    )
    assert (code, found["exact"]) == (0, True)


def test_effects_of_an_earlier_run_are_not_taken_for_those_of_this_one(torture, tmp_path):
    file = tmp_path / "same.db"
    again = ("--messages", "50", "--kills", "0", "--database", f"sqlite:///{file}")
    assert torture(*again)[0] == 0
    for table in ("torture_effects", "torture_keys"):
        code, said = torture(*again)
        assert (code, "earlier run" in said, table in said) == (2, True, True)
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"DELETE FROM {table}")
    code, found = torture(*again)
    assert (code, found["lost"], found["out_of_order"]) == (0, 0, 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_no_consumer_outlives_the_command(tmp_path, monkeypatch, number, code):
    monkeypatch.chdir(HERE)
    monkeypatch.setenv("TORTURE_DB", str(tmp_path / "done.db"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    arguments = (
        "--messages",
        "1000",
        "--handler",
        "torture_handlers:signed",
        "--check",
        "torture_handlers:count",
    )
    command = subprocess.Popen(
        [sys.executable, "-m", "dupeproof", "torture", *arguments, "--out", str(tmp_path / "out")],
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: len(set(signatures(tmp_path))) == 2)
    finally:
        command.send_signal(number)
    pids = set(signatures(tmp_path))
    assert (command.wait(30), len(pids)) == (code, 2)
    until(lambda: not any(is_alive(pid) for pid in pids))
    if number == signal.SIGTERM:
        assert not [*tmp_path.glob("dupeproof-torture-*")]


def signatures(folder):
    """The process of each call of `signed`: as there are two, and not a thousand, the torture waits and does nothing."""
    with closing(sqlite3.connect(folder / "done.db", timeout=30)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS done (id TEXT)")
        return [int(ident[4:]) for (ident,) in connection.execute("SELECT id FROM done")]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(reached, seconds=30):
    give_up = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_a_consumer_that_cannot_live_ends_the_torture(torture):
    code, said = torture(
        "--messages",
        "10",
        "--kills",
        "0",
        "--handler",
        "torture_handlers:broken",
        "--check",
        "torture_handlers:count",
    )
    assert code == 2
    assert "ended by itself" in said


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--broker", "pigeon"], "rabbitmq"),
        (["--url", "amqp://x"], "memory has none"),
        (["--handler", "torture_handlers:naive"], "go together"),
        (["--handler", "torture_handlers", "--check", "torture_handlers:count"], "module:function"),
        (["--handler", "nowhere:f", "--check", "torture_handlers:count"], "no module nowhere"),
        (["--handler", "torture_handlers:nothing", "--check", "torture_handlers:count"], "has no nothing"),
        (
            ["--handler", "torture_handlers:naive", "--check", "torture_handlers:not_a_function"],
            "not a function",
        ),
        (
            ["--handler", "torture_typo:handle", "--check", "torture_handlers:count"],
            "LookupError: no such setting",
        ),
        (["--handler", "torture_handlers:count", "--check", "torture_handlers:count"], "handler(message)"),
        (
            ["--handler", "torture_handlers:naive", "--check", "torture_handlers:careful"],
            "without arguments",
        ),
        (
            ["--handler", "torture_handlers:naive", "--check", "torture_handlers:no_count"],
            "LookupError: nothing to count",
        ),
        (["--messages", "0"], "10"),
    ],
)
def test_wrong_use_is_told_before_anything_starts(torture, arguments, text):
    code, said = torture(*arguments)
    assert code == 2
    assert text in said


@pytest.mark.parametrize(
    ("broker", "url"),
    [
        ("rabbitmq", "amqp://me:s3cret@127.0.0.1:1/"),
        ("redis", "redis://me:s3cret@127.0.0.1:1"),
        ("nats", "nats://me:s3cret@127.0.0.1:1"),
    ],
)
def test_a_broker_that_is_down_from_the_beginning_is_no_loss(torture, tmp_path, broker, url):
    code, said = torture("--broker", broker, "--url", url, "--database", f"sqlite:///{tmp_path}/t.db")
    assert (code, "cannot be reached" in said, "s3cret" in said) == (2, True, False)


def test_the_same_seed_chooses_the_same_course():
    wanted = {"messages": 500, "kills": 30, "servers": True}
    one, same, other = (course(seed, **wanted) for seed in (7, 7, 8))
    assert one == same
    assert one != other
    kinds = [planned.fault for planned in one.faults]
    assert kinds.count(Fault.KILL) == 30
    assert kinds.count(Fault.RESTART_BROKER) == kinds.count(Fault.RESTART_DATABASE) == 1
    assert one.faults == sorted(one.faults)
    assert len(set(one.messages)) == 500 < len(one.messages)


def test_servers_of_ones_own_only_add_to_the_course():
    wanted = {"messages": 200, "kills": 5}
    ours, given = (course(1, servers=servers, **wanted) for servers in (True, False))
    assert (ours.messages, ours.keys) == (given.messages, given.keys)
    restarts = {Fault.RESTART_BROKER, Fault.RESTART_DATABASE}
    assert [each for each in ours.faults if each.fault not in restarts] == given.faults


def test_the_command_to_have_it_again_stands_in_for_urls():
    request = Request(
        broker="redis",
        messages=200,
        kills=5,
        seed=1,
        url="redis://:secret@there",
        database="postgresql://me:secret@there/db",
    )
    assert command(request) == (
        "dupeproof torture --broker redis --messages 200 --kills 5 --seed 1 --url … --database …"
    )


def test_a_handler_that_is_not_called_in_order_is_caught(torture, monkeypatch):
    """The library is sabotaged; what sees it stands around the handler."""
    monkeypatch.setenv("PYTHONPATH", str(HERE / "sabotage"), prepend=os.pathsep)
    monkeypatch.setenv("TORTURE_SABOTAGE", "ignore_order")
    code, found = torture(
        "--messages",
        "300",
        "--kills",
        "1",
        "--handler",
        "torture_handlers:careful",
        "--check",
        "torture_handlers:count",
    )
    assert (code, found["lost"], found["doubled"]) == (1, 0, 0)
    assert found["out_of_order"] > 0


def test_a_run_whose_faults_met_nothing_fails_and_says_so_unless_that_was_allowed():
    outcome = missed_outcome(allow_misses=False)
    assert (outcome.is_exact, outcome.is_passed) == (True, False)
    [line, again] = violations(outcome)
    assert line.startswith("freeze of a consumer: it never struck anything under way")
    assert "--allow-misses" in line
    assert again.startswith("again with the same faults")
    assert pairs(outcome)["freeze of a consumer"] == "1, NONE of them struck anything under way"
    assert "every message had its effect once" in headline(outcome)
    allowed = missed_outcome(allow_misses=True)
    assert (allowed.is_passed, violations(allowed)) == (True, [])


def missed_outcome(*, allow_misses):
    request = Request(broker="memory", messages=10, kills=1, seed=1, allow_misses=allow_misses)
    return Outcome(
        request=request,
        versions={},
        published=10,
        sent_again=0,
        failed=0,
        faults=[
            Happened(Fault.KILL, 1.0, 5, 0.1, TRANSACTION),
            Happened(Fault.KILL, 1.0, 5, 0.1, None),
            Happened(Fault.FREEZE, 2.0, 7, None, None),
        ],
        tally={},
        audit=audit({"a"}, {"a": 1}, []),
        order_checked=True,
        seconds=3.0,
        gave_up=False,
        own_deaths=0,
        last_words=[],
    )


def test_only_what_may_fail_fails_and_a_share_has_no_id():
    wanted = {"messages": 2_000, "kills": 5, "servers": True}
    overtaking = course(1, overtaking=True, **wanted)
    assert len(overtaking.failing) >= 6
    assert all(overtaking.keys[ident].startswith(OVERTAKING) for ident in overtaking.failing)
    named = course(1, unnamed=True, **wanted)
    assert any(key.startswith(UNNAMED) for key in named.keys.values())
    assert any(not named.keys[ident].startswith(OVERTAKING) for ident in named.failing)
    assert named.slow
    assert Fault.OUTLIVE not in {each.fault for each in named.faults}
    assert Fault.OUTLIVE in {each.fault for each in course(1, sessions=True, **wanted).faults}


def test_the_order_of_a_key_is_that_of_the_first_calls():
    calls = [(1.0, "m-1", "k"), (2.0, "m-3", "k"), (3.0, "m-2", "other"), (4.0, "m-1", "k")]
    assert calls_out_of_order(calls) == []
    assert calls_out_of_order([*calls[:2], (3.0, "m-2", "k")]) == ["m-2"]
    assert calls_out_of_order([(1.0, "m-3", f"{OVERTAKING}1"), (2.0, "m-2", f"{OVERTAKING}1")]) == []


def test_the_audit_sees_everything():
    found = audit({"a", "b", "c"}, {"a": 1, "b": 2, "x": 1, "c": 0}, ["b"])
    assert (found.lost, found.doubled, found.out_of_order, found.strangers) == (["c"], {"b": 2}, ["b"], ["x"])
    assert not found.is_exact
    assert audit({"a"}, {"a": 1}, []).is_exact
