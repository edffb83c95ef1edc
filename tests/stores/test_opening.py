"""Opening a store: nothing connects before the first use, and a missing driver names the extra to install."""

import subprocess
import sys

import pytest

from dupeproof import Once
from dupeproof.stores.urls import parse_url, redact


@pytest.mark.parametrize(
    ("driver", "url", "extra"),
    [
        ("redis", "redis://localhost", "dupeproof[redis]"),
        ("redis", "redis+cluster://localhost", "dupeproof[redis]"),
        ("psycopg", "postgresql://localhost/db", "dupeproof[postgres]"),
    ],
)
def test_a_missing_driver_names_the_extra(driver, url, extra):
    code = (
        f"import sys; sys.modules[{driver!r}] = None\n"
        "from dupeproof import ConfigError, Once\n"
        f"try: Once({url!r})\n"
        "except ConfigError as exc: print(exc)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f'pip install "{extra}"' in run.stdout


def test_importing_dupeproof_imports_no_driver():
    code = (
        "import sys, dupeproof; print([m for m in ('redis', 'psycopg', 'typer', 'rich') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:1", "postgresql://127.0.0.1:1/db", "sqlite:///no/such/folder/x.db"]
)
def test_building_a_guard_connects_to_nothing(url):
    Once(url).close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host:1/0", "redis://:***@host:1/0"),
        ("postgresql://u:secret@h/db?password=secret", "postgresql://u:***@h/db?…"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("redis+cluster://u:sec@ret@a:1,b:2", "redis+cluster://u:***@a:1,b:2"),
        ("sqlite:////tmp/a.db", "sqlite:////tmp/a.db"),
        ("redis://:pa/ss@host:6379/0", "redis://:***@host:6379/0"),
        ("postgresql://app:p?w@h/db", "postgresql://app:***@h/db"),
        ("app:secret@host", "app:***@host"),
        ("redis://:a@b://c@host", "redis://:***@host"),
        ("dedup.db", "dedup.db"),
        ("postgresql://h/db?password=sec@ret", "postgresql://…"),
        ("postgresql://h:5432/db?password=sec@ret", "postgresql://…"),
        ("host=h password=secret user='a b'", "host=*** password=*** user=***"),
        ("nats://token@h:4222", "nats://***@h:4222"),
        ("redis://secret@h", "redis://***@h"),
        ("redis://h+postgresql://u:secret@h2/db", "redis://h+postgresql://u:***@h2/db"),
        (
            "redis+sentinel://:secret@a:1,b:2/m+postgres://h/db",
            "redis+sentinel://:***@a:1,b:2/m+postgres://h/db",
        ),
        ("sqlite:////home/me@work/a.db", "sqlite:////home/me@work/a.db"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url, shown):
    assert redact(url) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///a.db?timeout=1s", "sqlite:///a.db?…"),
        ("sqlite:////tmp/a.db", "sqlite:////tmp/a.db"),
        ("host=h password=secret", "host=*** password=***"),
        ("redis://:secret@h/0", "redis://:***@h/0"),
    ],
)
def test_a_parsed_url_is_shown_as_it_would_be_typed(url, shown):
    assert str(parse_url(url)) == shown


def test_named_memory_is_shared_and_unnamed_is_not():
    assert Once("memory://shared-name").seen("a") is False
    assert Once("memory://shared-name").seen("a") is True
    assert Once("memory://").seen("a") is False
    assert Once("memory://").seen("a") is False


def test_a_relative_sqlite_path_is_relative_to_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Once("sqlite:///dedup.db") as once:
        once.seen("a")
    assert (tmp_path / "dedup.db").exists()
