"""What is typed wins over the environment, and that over the file; mistakes in the file are errors that say what to do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from dupeproof import Once
from dupeproof.cli.app import app


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DUPEPROOF_URL", "DUPEPROOF_NAMESPACE", "DUPEPROOF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write(text, path="dupeproof.toml"):
    Path(path).write_text(text)


def stored(name, namespace="default"):
    url = f"sqlite:///{name}.db"
    with Once(url, namespace=namespace) as once:
        once.run("k-1", int)
    return url


def test_the_flag_wins_over_the_environment_and_that_over_the_file(dupeproof, monkeypatch):
    flag, environment, file = (stored(name) for name in ("flag", "environment", "file"))
    write(f'url = "{file}"')
    assert dupeproof("stats", "--json").json["store"] == file
    monkeypatch.setenv("DUPEPROOF_URL", environment)
    assert dupeproof("stats", "--json").json["store"] == environment
    assert dupeproof("stats", flag, "--json").json["store"] == flag


def test_so_it_is_with_the_namespace(dupeproof, monkeypatch):
    url = stored("a", "one")
    stored("a", "two")
    write(f'url = "{url}"\nnamespace = "one"')
    assert dupeproof("show", "k-1", "--json").json["namespace"] == "one"
    monkeypatch.setenv("DUPEPROOF_NAMESPACE", "two")
    assert dupeproof("show", "k-1", "--json").json["namespace"] == "two"
    assert dupeproof("show", "k-1", "--namespace", "one", "--json").json["namespace"] == "one"


def test_a_table_has_the_options_of_its_command(dupeproof):
    write('[plan]\nrate = "50k/s"\nresult-size = 7\n[outbox.dead]\nlimit = 3\n')
    assert dupeproof("plan", "--json").json["demand"]["result"] == 7
    assert dupeproof("plan", "--result-size", "9", "--json").json["demand"]["result"] == 9


def test_json_that_was_asked_for_in_the_file_is_for_errors_too(dupeproof):
    write("[show]\njson = true\n")
    assert "error" in dupeproof("show", "sqlite:///nowhere.db", "k-1").json
    assert dupeproof("stats", "sqlite:///nowhere.db").out == ""


@pytest.mark.parametrize("way", ["flag", "environment"])
def test_another_file_can_be_named(dupeproof, monkeypatch, way):
    write('url = "redis://nowhere"')
    write(f'url = "{stored("other")}"', "other.toml")
    words = ["--config", "other.toml"] if way == "flag" else []
    if way == "environment":
        monkeypatch.setenv("DUPEPROOF_CONFIG", "other.toml")
    assert dupeproof(*words, "stats", "--json").json["store"] == "sqlite:///other.db"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("url = secret", "is not TOML"),
        ("url = 5", "url must be a text"),
        ("uri = 'x'", "has 'uri'; there are: url, namespace, plan"),
        ("doctor = 5", "must be a table: [doctor]"),
        ("[doctor]\nwindwo = '24h'", "[doctor] has 'windwo'; there are: json, redelivery, retention, window"),
        ("[outbox.dead]\nnothing = 1", "[outbox], [dead] has 'nothing'"),
        ("[outbox.dead]\nlimit = 'many'", "--limit"),
    ],
)
def test_a_mistake_in_the_file_is_named(dupeproof, text, told):
    write(text)
    ran = dupeproof("outbox", "dead", "sqlite:///none.db")
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert "secret" not in ran.err


def test_a_file_that_was_named_must_be_there(dupeproof):
    ran = dupeproof("--config", "gone.toml", "version")
    assert (ran.code, "gone.toml cannot be read" in ran.err) == (2, True)


def test_a_password_in_the_file_is_not_shown(dupeproof):
    write('url = "redis://:secret@127.0.0.1:1/0"')
    ran = dupeproof("stats")
    assert (ran.code, "redis://:***@127.0.0.1:1/0" in ran.err, "secret" in ran.err) == (2, True, False)


REDIS = "redis://app:secret@127.0.0.1:1/0?timeout=1s"
POSTGRES = "postgresql://app:secret@127.0.0.1:1/shop?timeout=1s"
SAFE = [
    *([name, url] for url in (REDIS, POSTGRES) for name in ("doctor", "purge", "stats", "schema")),
    *([name, url, "k-1"] for url in (REDIS, POSTGRES) for name in ("show", "forget", "resolve")),
    *(["plan", "--rate", "5/s", "--measure", url] for url in (REDIS, POSTGRES)),
    ["doctor", f"{REDIS}+{POSTGRES}"],
    *([name, "postgresql://127.0.0.1:1/shop?timeout=1s&password=a@secret"] for name in ("doctor", "stats")),
    *([name, "host=127.0.0.1 port=1 password=secret"] for name in ("doctor", "stats", "purge")),
    ["relay", "--source", "sqlite:///none.db", "--to", "nats://secret@127.0.0.1:1"],
    ["schema", POSTGRES, "--apply"],
    ["windows", "list", POSTGRES],
    ["windows", "set", POSTGRES, "billing", "4h"],
    ["outbox", "status", POSTGRES],
    ["outbox", "dead", POSTGRES],
    ["outbox", "retry", POSTGRES, "--all"],
    ["outbox", "drop", POSTGRES, "--all"],
    ["relay", "--source", POSTGRES, "--to", "stdout:", "--once"],
    ["relay", "--source", "sqlite:///none.db", "--to", "amqp://app:secret@127.0.0.1:1/"],
    ["torture", "--broker", "redis_streams", "--url", REDIS, "--database", POSTGRES],
    ["torture", "--broker", "rabbitmq", "--url", "amqp://app:secret@127.0.0.1:1/", "--database", POSTGRES],
    ["stats", POSTGRES, "--nonsense", REDIS],
    [REDIS],
]


@pytest.mark.parametrize("words", SAFE, ids=" ".join)
def test_no_command_shows_a_password(dupeproof, words):
    ran = dupeproof(*words)
    assert "secret" not in ran.out + ran.err


@pytest.mark.parametrize("words", SAFE, ids=" ".join)
def test_errors_are_json_where_that_was_asked_for(dupeproof, words):
    ran = dupeproof(*words, "--json")
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code in (0, 2)
    assert ran.code == 0 or found[-1]["error"] in " ".join(ran.err.split())
    assert "secret" not in ran.out + ran.err


def test_what_is_not_there_is_told_in_json_too(dupeproof):
    url = stored("a")
    ran = dupeproof("show", url, "nobody", "--json")
    assert (ran.code, "nothing is known" in ran.json["error"]) == (1, True)
    ran = dupeproof("outbox", "retry", url, "nobody", "--json")
    assert (ran.code, ran.json) == (1, {"put_back": [], "missing": ["nobody"]})
    assert "not dead: nobody" in ran.err


def commands(group=None, words=()):
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield pytest.param(command, id=" ".join((*words, name)))


@pytest.mark.parametrize("command", list(commands()))
def test_every_command_can_answer_in_json(command):
    assert "--json" in {option for parameter in command.params for option in parameter.opts}


def test_what_was_done_is_told_in_json(dupeproof):
    url = stored("a")
    assert dupeproof("version", "--json").json.keys() == {"dupeproof", "python", "sqlite"}
    assert dupeproof("forget", url, "k-1", "--json").json == {"forgotten": True}
    with Once(url, max_attempts=1) as once, pytest.raises(ZeroDivisionError):
        once.run("k-2", divmod, 1, 0)
    assert dupeproof("resolve", url, "k-2", "--no-result", "--json").json == {"resolved": True}
    assert dupeproof("schema", url, "--apply", "--json").json == {"store": url, "applied": []}
    assert "CREATE TABLE" in dupeproof("schema", url, "--json").json["sql"]
    assert dupeproof("windows", "set", url, "billing", "4h", "--json").json["window"] == "4h"
    assert dupeproof("windows", "unset", url, "billing", "--json").json["window"] is None
    assert dupeproof("outbox", "retry", url, "--all", "--json").json == {"put_back": [], "missing": []}


def test_the_shell_can_complete_commands_and_options(monkeypatch):
    environment = {"_DUPEPROOF_COMPLETE": "complete_bash", "COMP_WORDS": "dupeproof doc", "COMP_CWORD": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "dupeproof"], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["doctor"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_shown(shell):
    ran = subprocess.run(
        [sys.executable, "-m", "dupeproof", "--show-completion", shell],
        env={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_DUPEPROOF_COMPLETE" in ran.stdout
