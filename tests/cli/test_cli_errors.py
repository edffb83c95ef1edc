"""How the command line ends when something is wrong: one line, no traceback, no password."""

import os
import re
import subprocess
import sys

import pytest

from dupeproof import __version__

COMMANDS = [
    "bench",
    "console",
    "dead",
    "demo",
    "doctor",
    "forget",
    "outbox",
    "plan",
    "purge",
    "relay",
    "resolve",
    "schema",
    "show",
    "stats",
    "torture",
    "version",
    "windows",
]


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version_is_printed(dupeproof, word):
    assert f"dupeproof {__version__}" in dupeproof(word).out


@pytest.mark.parametrize("command", [[], ["stats"], ["outbox", "dead"]])
def test_help_has_its_short_name_too(dupeproof, command):
    assert dupeproof(*command, "-h") == dupeproof(*command, "--help")


def test_help_is_wrapped_by_the_terminal_and_not_where_its_source_was(dupeproof, monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 90)
    assert "effect once, and those of a key in their order." in " ".join(
        dupeproof("torture", "-h").out.split()
    )
    assert all(
        len(line) > 60 for line in _paragraph(dupeproof("torture", "-h").out, "Without --handler")[:-1]
    )


def _paragraph(text, begins):
    lines = [line.strip() for line in text.splitlines()]
    start = next(at for at, line in enumerate(lines) if line.startswith(begins))
    return lines[start : lines.index("", start)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(dupeproof, command):
    ran = dupeproof(command, "--help")
    assert ran.code == 0
    assert re.search(rf"Examples?: .*dupeproof {command}", ran.out)


def test_all_commands_are_listed(dupeproof):
    assert all(command in dupeproof("--help").out for command in COMMANDS)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["stats"], "which store?"),
        (["stats", "nonsense"], "is not a store URL"),
        (["stats", "redis://:secret@127.0.0.1:1/0"], "redis://:***@127.0.0.1:1/0"),
        (["stats", "postgresql://app:secret@127.0.0.1:1/shop"], "cannot be reached"),
        (["stats", "sqlite:///"], "write sqlite:///file.db"),
        (["stats", "one", "redis://:secret@127.0.0.1:1/0"], "unexpected extra argument"),
        (["stats", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["demo", "--out", "/dev/null/out"], "--out /dev/null/out cannot be made: Not a directory"),
        (["bench", "--out", "/dev/null/out"], "--out /dev/null/out cannot be made"),
        (["torture", "--out", "/dev/null/out"], "--out /dev/null/out cannot be made"),
        (
            ["doctor", "sqlite:///x.db", "--window", "24"],
            "a number with a unit (ms, s, m, h, d, w) such as '24h'",
        ),
    ],
)
def test_what_is_wrong_is_one_line_on_standard_error_and_exit_code_2(dupeproof, words, text):
    ran = dupeproof(*words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert text in ran.err
    assert "secret" not in ran.err


WITHOUT = """
import sys
sys.modules[{missing!r}] = None
sys.argv = ["dupeproof", "version"]
from dupeproof.__main__ import main
main()
"""


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_library_is_named_with_the_extra_that_brings_it(missing):
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert 'pip install "dupeproof[cli]"' in ran.stderr


def test_the_module_can_be_run():
    ran = subprocess.run(
        [sys.executable, "-m", "dupeproof", "version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("dupeproof ")


def test_a_terminal_that_knows_ascii_only_gets_what_it_can_show():
    command = [sys.executable, "-m", "dupeproof", "plan", "--rate", "50000/s", "--window", "24h"]
    shown = subprocess.run(
        command, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.isascii()
