"""How the command line ends when something is wrong: one line, no traceback, no password."""

import subprocess
import sys

import pytest

from dupeproof import __version__

COMMANDS = [
    "bench",
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
    "version",
    "windows",
]


def test_version_is_printed(dupeproof):
    assert f"dupeproof {__version__}" in dupeproof("version").out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(dupeproof, command):
    ran = dupeproof(command, "--help")
    assert ran.code == 0
    assert f"Example: dupeproof {command}" in ran.out


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
