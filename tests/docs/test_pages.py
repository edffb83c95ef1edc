"""Every page of the documentation does what it says: its Python runs, its commands parse, its links lead somewhere."""

import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from docs_run_page import BLOCK
from typer.main import get_command

from dupeproof.cli.app import add_commands_of_others, app
from support.places import django_set_up

django_set_up()  # which Django REST framework and django-ninja need to be imported
ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
URLS = {
    "redis://localhost:6379/0": ("redis", "redis_url"),
    "postgresql://app@localhost/shop": ("postgres", "postgres_url"),
    "amqp://guest:guest@localhost/": ("rabbitmq", "rabbitmq_server"),
    "localhost:9092": ("kafka", "kafka_server"),
}
"""What the pages write for a server of one's own, and the fixture that has one."""


def name(page):
    return str(page.relative_to(ROOT))


def code(page):
    return "".join(shown or hidden for shown, hidden in BLOCK.findall(page.read_text()))


def running():
    for page in PAGES:
        text = code(page)
        if text:
            needs = sorted({server for url, (server, _) in URLS.items() if url in text})
            yield pytest.param(page, id=name(page), marks=[pytest.mark.server(*needs)] if needs else [])


@pytest.mark.parametrize("page", list(running()))
def test_the_python_of_a_page_runs(request, page, tmp_path):
    text = code(page)
    found = {url: request.getfixturevalue(fixture) for url, (_, fixture) in URLS.items() if url in text}
    urls = {url: getattr(server, "url", server) for url, server in found.items()}
    ran = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::DeprecationWarning:page",
            str(Path(__file__).with_name("docs_run_page.py")),
            str(page),
            json.dumps(urls),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]


add_commands_of_others()
COMMAND = re.compile(r"^\$? ?(dupeproof .*?)(?:\s+#.*)?$", re.MULTILINE)
FENCE = re.compile(r"^```(?:bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands():
    for page in (*PAGES, ROOT / "README.md"):
        for fence in FENCE.findall(page.read_text()):
            for line in COMMAND.findall(fence.replace("\\\n", " ")):
                yield pytest.param(line, id=f"{name(page)}: {line}")


@pytest.mark.parametrize("line", list(commands()))
def test_a_command_shown_is_one_there_is(line):
    words = shlex.split(line)[1:]
    command, context = get_command(app), None
    while hasattr(command, "commands") and not words[0].startswith("-"):
        command = command.commands[words[0]]
        words = words[1:]
    if "--help" not in words and "--show-completion" not in words and "--install-completion" not in words:
        context = command.make_context("dupeproof", words)
        assert context.args == []


def test_the_command_page_has_every_command():
    page = (ROOT / "docs/command-line.md").read_text()
    missing = [each for each in get_command(app).commands if f"`dupeproof {each}" not in page]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_the_reference_is_drawn_from_is_there(page):
    for wanted in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE):
        module, _, attribute = wanted.rpartition(".")
        try:
            importlib.import_module(wanted)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), wanted


PUBLIC = [
    "dupeproof",
    *(f"dupeproof.brokers.{name}" for name in ("kafka", "memory", "nats", "rabbitmq", "redis_streams")),
    *(
        f"dupeproof.http{name}"
        for name in ("", ".client", ".django", ".drf", ".fastapi", ".flask", ".ninja", ".wsgi")
    ),
    *(
        f"dupeproof.{name}"
        for name in ("cleanup", "console", "doctor", "filters", "inbox", "outbox", "stores")
    ),
    *(f"dupeproof.{name}" for name in ("testing", "testing.http", "tokens")),
]
"""What users import from."""


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module):
    """Errors are drawn as a whole, and twins for tasks under the name of the other."""
    text = "".join(page.read_text() for page in PAGES if page.parent.name == "reference")
    drawn = {*dir(importlib.import_module("dupeproof.errors")), "__version__"}
    names = {each.removeprefix("Async") for each in importlib.import_module(module).__all__} - drawn
    assert [each for each in sorted(names) if not re.search(rf"\b{each}\b", text)] == []


def test_the_diagram_is_drawn_from_the_table():
    ran = subprocess.run(
        [sys.executable, ROOT / "tools/diagrams.py", "--check"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
