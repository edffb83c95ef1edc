"""Private attributes of other libraries that we rely on: each is listed, is there, and its library has a version cap.

A library may change them in any release. So this fails before users notice, and `pip` installs no release that was not
tried: raise the cap in pyproject.toml when these tests pass with the new one.
"""

import inspect
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from packaging.requirements import Requirement

SOURCES = Path(__file__).parents[2] / "src" / "dupeproof"
RELIED_ON = {
    # library, file in it, attribute: who relies on it, and for what
    (
        "psycopg",
        "psycopg/connection.py",
        "_connect_gen",
    ): "stores/postgres/connection.py: connecting has a deadline",
    (
        "psycopg",
        "psycopg/connection_async.py",
        "_connect_gen",
    ): "stores/postgres/connection_async.py: the same",
    ("pika", "pika/adapters/blocking_connection.py", "_closing_reason"): (
        "brokers/rabbitmq/source.py: why the broker closed the channel"
    ),
    ("pika", "pika/connection.py", "_terminate_stream"): (
        "brokers/rabbitmq/copies.py: hanging up on a broker that does not read"
    ),
    (
        "django",
        "django/http/request.py",
        "_read_started",
    ): "http/django.py, http/drf.py: whether a form was parsed",
    ("django", "django/http/request.py", "_body"): "http/django.py, http/drf.py: whether the body was read",
    ("django", "django/core/handlers/wsgi.py", "_stream"): "http/django.py: the body, to be read again",
    ("django", "django/core/handlers/asgi.py", "_stream"): "http/django.py: the same",
    ("django", "django/db/transaction.py", "_non_atomic_requests"): (
        "http/django.py: views that are outside of ATOMIC_REQUESTS"
    ),
    ("django-ninja", "ninja/operation.py", "_run_checks"): "http/ninja.py: authentication before the key",
    ("django-ninja", "ninja/operation.py", "_ninja_contribute_to_operation"): (
        "http/django.py: refusing the wrong decorator"
    ),
    ("django-ninja", "ninja/operation.py", "_ninja_operation"): "http/ninja.py: refusing the wrong order",
    ("werkzeug", "werkzeug/wrappers/request.py", "_cached_data"): "http/flask.py: whether the body was read",
    ("starlette", "starlette/requests.py", "_form"): "http/fastapi.py: the form FastAPI has read already",
    ("sqlalchemy", "sqlalchemy/engine/default.py", "_on_connect_isolation_level"): (
        "sql/sqlalchemy.py: whether an engine is set up for AUTOCOMMIT"
    ),
}
DOCUMENTED = {"_request", "_get_current_object", "_meta"}
"""By their libraries, in spite of the name; so are the codes of confluent_kafka.KafkaError."""
OURS = {"_open", "_send", "_unfit", "_close"}
"""Of one publisher in two coats."""


def text_of(file: str) -> str:
    """Not imported: some want settings first."""
    package = find_spec(file.partition("/")[0])
    return (Path(package.origin).parents[1] / file).read_text()


@pytest.mark.parametrize(("library", "file", "attribute"), RELIED_ON)
def test_a_private_attribute_we_rely_on_is_there(library, file, attribute):
    why = RELIED_ON[library, file, attribute]
    assert re.search(rf"\b{attribute}\b", text_of(file)), f"{library} has changed; see {why}"


def test_connecting_is_still_one_generator_that_can_be_watched():
    for connection in (psycopg.Connection, psycopg.AsyncConnection):
        assert inspect.isgeneratorfunction(connection._connect_gen.__func__)


@pytest.mark.parametrize("library", sorted({library for library, _, _ in RELIED_ON}))
def test_a_library_whose_private_attributes_we_use_has_a_cap(library):
    extras = tomllib.loads((SOURCES.parents[1] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    needed = [Requirement(each) for name, extra in extras.items() if name != "all" for each in extra]
    mine = [each for each in needed if each.name.lower() == library]
    assert mine
    for each in mine:
        assert any(part.operator in ("<", "~=", "==") for part in each.specifier), f"{each} has no cap"


def test_every_private_attribute_of_others_is_listed():
    listed = {attribute for _, _, attribute in RELIED_ON} | DOCUMENTED | OURS
    for path in SOURCES.rglob("*.py"):
        for line in path.read_text().splitlines():
            private = re.findall(r"[\w)\]]\.(_[a-z]\w*)", line) if "SLF001" in line else []
            private += re.findall(r"[gh](?:et|as)attr\((?!self\b)[\w.]+, \"(_[a-z]\w*)\"", line)
            foreign = [name for name in private if not re.search(rf"(?:self|cls)\.{name}", line)]
            unlisted = set(foreign) - listed - {"_publisher", "_runner", "_thread"}
            assert not unlisted, f"{path.name}: {unlisted} is not in the list above"
