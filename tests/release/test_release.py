"""What is released works without extras, and with each of them; without one, the error names it."""

import json
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import dupeproof
import dupeproof_lab

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

PLAIN = """
import dupeproof, dupeproof.brokers.memory, dupeproof.cleanup, dupeproof.doctor, dupeproof.filters, dupeproof.inbox
import dupeproof.keys, dupeproof.metrics.logs, dupeproof.outbox, dupeproof.testing, dupeproof.tokens, sqlite3, sys
from dupeproof import Cooldown, Inbox, OneTimeTokens, Once, Outbox, Relay

for url in ("memory://", "sqlite:///plain.db"):
    with Once(url) as once:
        assert [once.run("k", lambda: 5) for _ in range(2)] == [5, 5]
        assert [once.seen("m") for _ in range(2)] == [False, True]
    assert Cooldown(url).allow("a", "b", within="5m")
connection = sqlite3.connect("shop.db")
inbox, outbox = Inbox("g"), Outbox()
inbox.create_schema(connection)
outbox.create_schema(connection)
with connection:
    assert inbox.first(connection, "m-1")
    outbox.add(connection, topic="t", payload={})
connection.close()
sent = []
Relay("sqlite:///shop.db", publisher=sent.append).run_once()
assert len(sent) == 1
tokens = OneTimeTokens("memory://", secret="s" * 32)
tokens.redeem(tokens.issue({"user": 1}, ttl="5m"), {"user": 1})
strangers = {"redis", "psycopg", "starlette", "typer", "pika", "prometheus_client"} & sys.modules.keys()
assert not strangers, strangers
print(dupeproof.__version__)
"""

CONNECT = """
from dupeproof import Inbox, StoreUnavailable
try:
    Inbox("g", database="mysql://127.0.0.1:1/a").transaction().__enter__()
except StoreUnavailable as error:
    assert "127.0.0.1" in str(error), error
"""
WITH_SETTINGS = "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'django.conf.global_settings'; "
EXTRAS = {
    "redis": "from dupeproof import Once; Once('redis://localhost:1').close()",
    "postgres": "from dupeproof import Once; Once('postgresql://localhost:1/a').close()",
    "mysql": CONNECT,
    "sqlalchemy": "import dupeproof.sqlalchemy, sqlalchemy; dupeproof.sqlalchemy.tables(sqlalchemy.MetaData())",
    "alembic": "from dupeproof.alembic import include_name, upgrade",
    "bloom": "from dupeproof.filters import Bloom; Bloom(1_000)",
    "http": "from dupeproof.http import IdempotencyMiddleware",
    "flask": "from dupeproof.http.flask import Idempotent",
    "django": "from dupeproof.http.django import IdempotencyMiddleware; import dupeproof.django.apps",
    "drf": WITH_SETTINGS + "from dupeproof.http.drf import Idempotent",
    "ninja": WITH_SETTINGS + "from dupeproof.http.ninja import Idempotent",
    "client": "from dupeproof.http.client import IdempotentTransport; IdempotentTransport()",
    "rabbitmq": "from dupeproof.brokers.rabbitmq import RabbitPublisher; RabbitPublisher('amqp://localhost:1/')",
    "kafka": "from dupeproof.brokers.kafka import KafkaPublisher; KafkaPublisher('localhost:1')",
    "nats": "from dupeproof.brokers.nats import NatsPublisher; NatsPublisher('nats://localhost:1')",
    "faststream": "from dupeproof.brokers.faststream import InboxMiddleware",
    "metrics": "from dupeproof.metrics.prometheus import PrometheusListener; PrometheusListener()",
    "otel": "from dupeproof.metrics.otel import OpenTelemetryListener; OpenTelemetryListener()",
    "console": "from dupeproof.console import ConsoleApp; ConsoleApp('memory://')",
    "cli": "import sys; sys.argv[1:] = ['version']; from dupeproof.__main__ import main; main()",
}
"""The smallest thing that needs it."""


def test_every_extra_is_tried():
    assert EXTRAS.keys() == PROJECT["optional-dependencies"].keys() - {"all"}


def test_the_core_works_without_extras(clean):
    ran = clean.run("-c", PLAIN)
    assert (ran.returncode, ran.stdout.strip()) == (0, dupeproof.__version__), ran.stderr


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_all_it_needs(clean, extra):
    ran = clean.run("-c", EXTRAS[extra], extra=extra)
    assert ran.returncode == 0, ran.stderr


ALL = """
import json, sys
told = {}
for extra, code in json.loads(sys.stdin.read()).items():
    try:
        exec(code, {})
    except (Exception, SystemExit) as exc:
        told[extra] = str(exc)
print(json.dumps(told))
"""


def test_without_an_extra_the_error_names_it(clean):
    ran = clean.run("-c", ALL, given=json.dumps(EXTRAS))
    told = json.loads(ran.stdout)
    unnamed = {extra for extra in EXTRAS if f'pip install "dupeproof[{extra}]"' not in told.get(extra, "")}
    # The command says it itself and exits with 2.
    assert unnamed == {"cli"}
    assert (told["cli"], 'pip install "dupeproof[cli]"' in ran.stderr) == ("2", True)


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("brokers.redis_streams", "redis"),
        ("http.fastapi", "http"),
        ("http.flask", "flask"),
        ("http.django", "django"),
        ("http.drf", "drf"),
        ("http.ninja", "ninja"),
    ],
)
def test_a_module_without_its_extra_names_it(clean, module, extra):
    ran = clean.run("-c", f"import dupeproof.{module}")
    assert (ran.returncode, f'pip install "dupeproof[{extra}]"' in ran.stderr.splitlines()[-1]) == (
        1,
        True,
    ), ran.stderr


def test_the_module_is_the_command(clean):
    ran = clean.run("-m", "dupeproof", "version", extra="cli")
    assert ran.stdout.startswith(f"dupeproof {dupeproof.__version__} (")


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["doctor", "redis://127.0.0.1:1"], "redis"),
        (["doctor", "postgresql://127.0.0.1:1/shop"], "postgres"),
        (["doctor", "redis://127.0.0.1:1+postgresql://127.0.0.1:1/shop"], "redis"),
        (["plan", "--rate", "5/s", "--measure", "redis://127.0.0.1:1"], "redis"),
        (["plan", "--rate", "5/s", "--measure", "postgresql://127.0.0.1:1/shop"], "postgres"),
        (["stats", "postgresql://127.0.0.1:1/shop"], "postgres"),
        (["windows", "list", "mysql://127.0.0.1:1/shop"], "mysql"),
        (["relay", "--source", "postgresql://127.0.0.1:1/shop", "--to", "stdout:"], "postgres"),
        (["console", "redis://127.0.0.1:1"], "console"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:3]),
)
def test_a_command_without_its_driver_says_what_to_install(clean, words, extra):
    ran = clean.run("-m", "dupeproof", *words, extra="cli")
    assert f'pip install "dupeproof[{extra}]"' in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 2


@pytest.mark.parametrize("command", ["bench", "demo", "torture"])
def test_a_command_of_the_lab_says_what_to_install(clean, command):
    ran = clean.run("-m", "dupeproof", command, extra="cli")
    assert (ran.returncode, "pip install dupeproof-lab" in ran.stderr) == (2, True), ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_wheel_installs_nothing_and_becomes_nobody_else(wheel):
    """Servers are the lab's business."""
    with zipfile.ZipFile(wheel) as files:
        code = {name: files.read(name).decode() for name in files.namelist() if name.endswith(".py")}
    assert [name for name, text in code.items() if "apt-get" in text or "sudo" in text] == []


def test_lab_and_library_have_one_version():
    assert dupeproof_lab.__version__ == dupeproof.__version__


def test_the_version_is_written_in_one_place(wheel):
    assert wheel.name.startswith(f"dupeproof-{dupeproof.__version__}-")
    assert "version" not in PROJECT
    others = [
        path
        for path in (ROOT / "src").rglob("*.py")
        if f'"{dupeproof.__version__}"' in path.read_text() and path.name != "__init__.py"
    ]
    assert others == []


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    source = ROOT / "src/dupeproof"
    wanted = {
        f"dupeproof/{path.relative_to(source)}"
        for path in source.rglob("*")
        if path.suffix in {".py", ".lua", ".sql", ".typed", ".css", ".html", ".js", ".svg"} and path.is_file()
    }
    assert wanted == {name for name in names if name.startswith("dupeproof/")}
    assert {name.partition("/")[0] for name in names} == {
        "dupeproof",
        f"dupeproof-{dupeproof.__version__}.dist-info",
    }


def test_the_source_archive_has_what_it_takes_to_test_and_document_it(built):
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {Path(*Path(name).parts[1:]).as_posix() for name in files.getnames()}
    wanted = {
        "Makefile",
        "constraints.txt",
        "mkdocs.yml",
        "docs/index.md",
        "ops/grafana.json",
        "SECURITY.md",
        "LICENSE",
    }
    assert wanted | {"tests/conftest.py", "tools/twins.py", "examples/README.md"} <= names


@pytest.mark.parametrize(("code", "most"), [("import dupeproof", 40), ("from dupeproof import Once", 80)])
def test_an_import_loads_only_what_is_asked_for(clean, code, most):
    count = "import sys; print(sum(name.partition('.')[0] == 'dupeproof' for name in sys.modules))"
    ran = clean.run("-c", f"{code}; {count}")
    assert int(ran.stdout) <= most


def test_all_names_of_the_package_are_there():
    assert {*dupeproof.__all__} <= {*dir(dupeproof)}
    assert [name for name in dupeproof.__all__ if getattr(dupeproof, name, None) is None] == []
    with pytest.raises(AttributeError, match="has no attribute 'Twice'"):
        dupeproof.Twice
