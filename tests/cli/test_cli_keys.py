"""show, forget and resolve: one key on the command line."""

import time

import pytest

from dupeproof import Held, Once
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
    assert (facts["state"], facts["attempt"], facts["result_bytes"]) == ("done", 1, 15)
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


@pytest.mark.parametrize("command", ["show", "forget", "resolve"])
def test_an_unknown_key_is_exit_code_1_and_one_line(dupeproof, url, once, command):
    once.check()
    ran = dupeproof(command, url, "nobody", "--namespace", "billing")
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
    dupeproof("resolve", url, "charge:o-1", "--namespace", "billing", "--window", "1ms")
    while dupeproof("show", url, "charge:o-1", "--namespace", "billing").code != 1:
        pass


def test_resolve_refuses_a_key_that_is_being_worked_on(dupeproof, url, once):
    with once.claim("charge:o-1"):
        ran = dupeproof("resolve", url, "charge:o-1", "--namespace", "billing")
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
