"""show, forget and resolve: one key on the command line."""

import os
import time
from contextlib import closing

import pytest

from dupeproof import Held, Once
from dupeproof.core.records import ClaimRequest, Terms
from dupeproof.stores import open_store
from dupeproof.testing import Crashed, crash_at


def hold(url, key):
    """Leave a key as an owner that vanished leaves it. It has vanished long before its first heartbeat."""
    once = Once(url, namespace="billing", lease="100ms", on_abandoned="hold")
    with pytest.raises(Crashed), crash_at("after-claim"):
        once.claim(key).acquire()
    while once.get(key).state != "held":
        time.sleep(0.01)
    return once


@pytest.fixture
def once(url):
    with Once(url, namespace="billing") as once:
        yield once


def test_show_tells_the_state_of_a_key_but_not_its_result(dupeproof, url, once):
    once.run("charge:o-1", lambda: {"card": "4242"})
    ran = dupeproof("show", url, "charge:o-1", "--namespace", "billing")
    assert ran.code == 0
    assert "done" in ran.out
    assert "result bytes" in ran.out
    assert "4242" not in ran.out + ran.err


def test_show_prints_the_result_when_asked(dupeproof, url, once):
    once.run("charge:o-1", lambda: {"card": "4242"})
    assert '{"card":"4242"}' in dupeproof("show", url, "charge:o-1", "-n", "billing", "--result").out


def test_show_as_json_keeps_the_result_back_too(dupeproof, url, once):
    once.run("charge:o-1", lambda: {"card": "4242"})
    facts = dupeproof("show", url, "charge:o-1", "--namespace", "billing", "--json").json
    assert (facts["state"], facts["attempts"], facts["result_bytes"]) == ("done", 1, 15)
    assert "result" not in facts
    facts = dupeproof("show", url, "charge:o-1", "--namespace", "billing", "--json", "--result").json
    assert facts["result"] == {"card": "4242"}


def test_show_prints_a_stored_nothing(dupeproof, url, once):
    once.run("charge:o-1", lambda: None)
    facts = dupeproof("show", url, "charge:o-1", "--namespace", "billing", "--json", "--result").json
    assert facts["result"] is None


def test_show_gives_the_metadata_of_a_mark(dupeproof, url, once):
    once.seen("msg-1", meta={"from": "eu-1"})
    facts = dupeproof("show", url, "msg-1", "--namespace", "billing", "--json").json
    assert (facts["state"], facts["meta"]) == ("seen", {"from": "eu-1"})


def test_keys_and_metadata_with_brackets_are_printed_as_they_are(dupeproof, url, once):
    once.seen("msg[bold]", meta="[red]1[/]")
    assert "[red]1[/]" in dupeproof("show", url, "msg[bold]", "--namespace", "billing").out


@pytest.mark.parametrize(
    "command", [["show"], ["forget"], ["resolve", "--no-result"]], ids=lambda words: words[0]
)
def test_an_unknown_key_is_exit_code_1_and_one_line(dupeproof, url, once, command):
    once.check()
    ran = dupeproof(*command, url, "nobody", "--namespace", "billing")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


def test_a_key_of_another_namespace_is_unknown(dupeproof, url, once):
    once.seen("msg-1")
    assert dupeproof("show", url, "msg-1").code == 1


def test_forget_makes_a_key_new(dupeproof, url, once):
    once.seen("msg-1")
    assert dupeproof("forget", url, "msg-1", "--namespace", "billing").code == 0
    assert not once.seen("msg-1")


def test_resolve_closes_a_held_key_with_a_result(dupeproof, url):
    once = hold(url, "charge:o-1")
    with pytest.raises(Held):
        once.run("charge:o-1", lambda: "again")
    ran = dupeproof("resolve", url, "charge:o-1", "--namespace", "billing", "--result", '{"receipt": 17}')
    assert (ran.code, ran.out) == (0, "resolved\n")
    assert once.run("charge:o-1", lambda: "again") == {"receipt": 17}
    once.close()


def test_resolve_takes_the_window_in_which_the_key_is_remembered(dupeproof, url):
    hold(url, "charge:o-1").close()
    dupeproof("resolve", url, "charge:o-1", "--namespace", "billing", "--no-result", "--window", "1ms")
    while dupeproof("show", url, "charge:o-1", "--namespace", "billing").code != 1:
        pass


def test_resolve_refuses_a_key_that_is_being_worked_on(dupeproof, url, once):
    with once.claim("charge:o-1"):
        ran = dupeproof("resolve", url, "charge:o-1", "--namespace", "billing", "--no-result")
        assert ran.code == 2
        assert "being worked on" in ran.err


def test_a_key_cannot_be_done_and_reopened_at_once(dupeproof, url):
    once = hold(url, "charge:o-1")
    ran = dupeproof("resolve", url, "charge:o-1", "-n", "billing", "--result", "1", "--reopen")
    assert (ran.code, "give one of them" in ran.err) == (2, True)
    assert once.get("charge:o-1").state == "held"


def test_a_result_that_is_not_json_is_refused(dupeproof, url):
    hold(url, "charge:o-1").close()
    ran = dupeproof("resolve", url, "charge:o-1", "--namespace", "billing", "--result", "paid")
    assert ran.code == 2
    assert "is not JSON" in ran.err


def test_the_url_may_come_from_the_environment(dupeproof, url, once, monkeypatch):
    once.seen("msg-1")
    monkeypatch.setenv("DUPEPROOF_URL", url)
    assert dupeproof("show", "msg-1", "--namespace", "billing").code == 0
    assert dupeproof("forget", "msg-1", "--namespace", "billing").code == 0


def test_a_key_is_asked_for(dupeproof, url):
    for words in [["show"], ["show", url]]:
        ran = dupeproof(*words)
        assert ran.code == 2
        assert "which key?" in ran.err


@pytest.mark.parametrize("which", ["redis_url", "postgres_url"])
@pytest.mark.server("redis", "postgres")
def test_keys_on_servers_are_shown_resolved_and_forgotten(dupeproof, request, which):
    url = request.getfixturevalue(which)
    hold(url, "charge:o-1").close()
    options = ["charge:o-1", "--namespace", "billing"]
    assert dupeproof("show", url, *options, "--json").json["state"] == "held"
    assert dupeproof("resolve", url, *options, "--result", "7").code == 0
    assert dupeproof("show", url, *options, "--json", "--result").json["result"] == 7
    assert dupeproof("forget", url, *options).code == 0
    assert dupeproof("show", url, *options).code == 1


def test_resolve_asks_what_became_of_the_work(dupeproof, url):
    hold(url, "charge:o-1").close()
    ran = dupeproof("resolve", url, "charge:o-1", "--namespace", "billing")
    assert (ran.code, "--no-result" in ran.err) == (2, True)
    assert dupeproof("show", url, "charge:o-1", "-n", "billing", "--json").json["state"] == "held"


def test_a_held_key_is_forgotten_only_by_who_says_that_it_may_run_again(dupeproof, url):
    hold(url, "charge:o-1").close()
    ran = dupeproof("forget", url, "charge:o-1", "--namespace", "billing")
    assert (ran.code, "--yes-it-may-run-again" in ran.err) == (2, True)
    assert dupeproof("forget", url, "charge:o-1", "-n", "billing", "--yes-it-may-run-again").code == 0


def test_digits_of_the_log_stand_for_a_key_in_every_command(dupeproof, url):
    once = hold(url, "charge:o-1")
    digits = once.get("charge:o-1").digest[:8]
    assert dupeproof("show", url, digits, "--json").json["namespace"] == "billing"
    assert dupeproof("resolve", url, digits, "--result", "7").code == 0
    assert once.run("charge:o-1", int) == 7
    assert dupeproof("forget", url, digits).code == 0
    once.close()


def test_list_shows_what_is_held_with_the_digits_for_the_other_commands(dupeproof, url):
    once = hold(url, "charge:o-1")
    digest = once.get("charge:o-1").digest
    ran = dupeproof("list", url, "--state", "held")
    assert (ran.code, digest[:12] in ran.out, "billing" in ran.out) == (0, True, True)
    [facts] = dupeproof("list", url, "--json").json
    assert (facts["digest"], facts["state"], facts["key"]) == (digest, "held", None)
    assert "no key is dead" in dupeproof("list", url, "--state", "dead").out
    ran = dupeproof("list", url, "--state", "done")
    assert (ran.code, "held, dead" in ran.err) == (2, True)
    once.close()


LOOKUP = """
from dupeproof import Done, Unknown

def lookup(entry):
    return Done({"receipt": entry.key}) if entry.key == "pay:1" else Unknown()
"""


def test_settle_asks_a_function_about_every_held_key(dupeproof, url, tmp_path, monkeypatch):
    (tmp_path / "shop_lookup.py").write_text(LOOKUP)
    monkeypatch.syspath_prepend(tmp_path)
    with Once(url, namespace="billing", on_error="hold", keep_keys=True) as once:
        for key in ("pay:1", "pay:2"):
            with pytest.raises(ZeroDivisionError):
                once.run(key, lambda: 1 / 0)
        ran = dupeproof("settle", url, "shop_lookup:lookup", "-n", "billing", "--json")
        assert ran.json == {"done": 1, "not_done": 0, "unknown": 1, "failed": 0}
        assert once.run("pay:1", int) == {"receipt": "pay:1"}
    for wrong in ("shop_lookup", "shop_lookup:nothing", "no_such_module:f"):
        assert dupeproof("settle", url, wrong).code == 2


@pytest.mark.parametrize(
    "command", [["show"], ["forget", "--yes-it-may-run-again"], ["resolve", "--no-result"]]
)
def test_digits_that_begin_two_digests_change_nothing(dupeproof, url, command):
    digests = [bytes.fromhex("feedc0de" + end * 12) for end in ("00", "11")]
    with closing(open_store(url)) as store:
        terms = Terms("billing", lease=1, window=60_000, hold=True)
        store.claim([ClaimRequest(digest, os.urandom(8), terms) for digest in digests])
        ran = dupeproof(command[0], url, "feedc0de", *command[1:])
        assert ran.code == 2
        assert "these digits begin 2 digests; give more of them" in ran.err
        assert all(store.get(digests))
