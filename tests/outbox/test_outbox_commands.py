"""`dupeproof outbox` and `dupeproof relay`."""

import sys

import msgspec
import pytest

from dupeproof import Relay
from dupeproof.cli.app import run
from dupeproof.outbox.sources import open_source


@pytest.fixture
def dupeproof(capsys, monkeypatch):
    monkeypatch.delenv("DUPEPROOF_URL", raising=False)

    def command(*arguments):
        capsys.readouterr()
        code = run(list(arguments))
        return code, *capsys.readouterr()

    return command


@pytest.fixture
def poisoned(box):
    """Two dead messages of two keys, and one that waits behind each."""
    ids = box.add("a1", key="secret-a") + box.add("b1", key="secret-b")
    box.add("a2", key="secret-a")
    box.add("b2", key="secret-b")

    def fail(message):
        if message.json().endswith("1"):
            raise ValueError("amqp://me:hunter2@host/")

    with Relay(box.url, publisher=fail, max_attempts=1) as relay:
        relay.run_once()
    return ids


def test_status_tells_how_much_waits(box, dupeproof):
    box.add(1, 2)
    box.add(3, delay="1h")
    code, out, _ = dupeproof("outbox", "status", box.url, "--json", "--over", "1ms")
    facts = msgspec.json.decode(out)
    assert code == 0
    assert (facts["backlog"], facts["delayed"], facts["dead"], facts["sent"]) == (2, 1, 0, 0)
    assert facts["oldest"] > 0
    assert facts["sent_per_second"] == 0
    with Relay(box.url, publisher=lambda message: None) as relay:
        relay.run_once()
    code, out, _ = dupeproof("outbox", "status", box.url, "--over", "1ms")
    assert code == 0
    assert "backlog" in out


def test_dead_messages_are_listed_without_keys_and_secrets(box, poisoned, dupeproof):
    code, out, _ = dupeproof("outbox", "dead", box.url, "--json")
    assert code == 0
    assert [each["id"] for each in msgspec.json.decode(out)] == poisoned
    assert "secret" not in out
    assert "hunter2" not in out
    assert poisoned[0] in dupeproof("outbox", "dead", box.url)[1].replace("\n", "")


def test_dead_messages_are_retried(box, poisoned, dupeproof):
    assert dupeproof("outbox", "retry", box.url, poisoned[0])[:2] == (0, "put back: 1\n")
    assert dupeproof("outbox", "retry", box.url, poisoned[0])[0] == 1
    got = []
    with Relay(box.url, publisher=lambda message: got.append(message.json())) as relay:
        relay.run_once()
    assert got == ["a1", "a2"]
    assert dupeproof("outbox", "retry", box.url, "--all")[:2] == (0, "put back: 1\n")


def test_dead_messages_are_dropped(box, poisoned, dupeproof):
    assert dupeproof("outbox", "drop", box.url, "--all")[:2] == (0, "dropped: 2\n")
    got = []
    with Relay(box.url, publisher=lambda message: got.append(message.json())) as relay:
        relay.run_once()
    assert sorted(got) == ["a2", "b2"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["outbox", "retry", "URL"], "Give their ids, or --all"),
        (["outbox", "drop", "URL", "id", "--all"], "Give their ids, or --all"),
        (["outbox", "status", "redis://localhost"], "not where an outbox can be"),
        (["outbox", "status", "sqlite:///nowhere.db"], "there is no file"),
        (["relay", "--source", "URL", "--to", "kafka"], "nothing to publish to; there are amqp://…, "),
        (["relay", "URL", "--to", "python:json.publish"], "json has no publish"),
        (["relay", "--source", "URL", "--to", "python:nowhere.publish"], "no module nowhere"),
        (["relay", "--source", "URL", "--to", "python:json.publish"], "json has no publish"),
        (["relay", "--source", "URL", "--to", "python:publish"], "module.function"),
        (["relay", "--source", "URL", "--to", "stdout:", "--after-dead", "panic"], "after_dead"),
    ],
)
def test_wrong_use_says_what_to_do(tmp_path, dupeproof, arguments, text):
    url = f"sqlite:///{tmp_path}/shop.db"
    source = open_source(url)
    source.status()
    source.close()
    code, _, err = dupeproof(*(url if each == "URL" else each for each in arguments))
    assert code == 2
    assert text in err


def test_relay_publishes_with_a_function(box, dupeproof, tmp_path, monkeypatch):
    box.add({"n": 1}, key="k")
    (tmp_path / "outbox_shop.py").write_text(
        "got = []\ndef publish(message):\n    got.append(message.json())\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "outbox_shop", raising=False)
    assert dupeproof("relay", "--source", box.url, "--to", "python:outbox_shop.publish", "--once")[0] == 0
    import outbox_shop

    assert outbox_shop.got == [{"n": 1}]
