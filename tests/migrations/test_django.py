"""Django's own commands on a real project that has our app: its migrations, its admin, its checks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from migrations_catalogues import catalogue, connected

from dupeproof import Once, Outbox, Relay
from dupeproof.sqlalchemy import schema
from dupeproof.stores.postgres.migrations import migrations

EXAMPLE = Path(__file__).parents[2] / "examples" / "django_shop"
KINDS = [
    pytest.param("postgres", marks=pytest.mark.server("postgres")),
    pytest.param("mariadb", marks=pytest.mark.server("mariadb")),
    "sqlite",
]
ENGINES = {"postgresql": "postgresql", "mysql": "mysql"}
# One process for several commands, as starting it is what takes the time. PyMySQL stands in for mysqlclient.
COMMANDS = """
import os, shlex, sys
import pymysql
pymysql.version_info = (2, 2, 1, "final", 0)
pymysql.install_as_MySQLdb()
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
from django.core.management import execute_from_command_line
for command in sys.argv[1:]:
    if command.startswith("python "):
        exec(command.removeprefix("python "))
    else:
        execute_from_command_line(["manage.py", *shlex.split(command)])
"""


class Project:
    """A copy of the example, whose settings may be changed."""

    def __init__(self, folder, url):
        self.url, self.folder = url, folder / "project"
        shutil.copytree(EXAMPLE, self.folder)
        self.environment = {**os.environ}
        there = urlsplit(url)
        if there.scheme == "sqlite":
            self.environment["DATABASE"] = f"NAME={there.path[1:]}"
        else:
            self.environment["DATABASE"] = (
                f"ENGINE=django.db.backends.{ENGINES[there.scheme]} NAME={there.path[1:]} USER={there.username}"
                f" PASSWORD={there.password} HOST={there.hostname} PORT={there.port}"
            )

    def run(self, *commands, fails=False):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", COMMANDS, *commands],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        said = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, said
        return said

    def add(self, file, text):
        with (self.folder / "shop" / file).open("a") as opened:
            opened.write(text)


@pytest.fixture
def project(request, tmp_path):
    kind = getattr(request, "param", "sqlite")
    url = f"sqlite:///{tmp_path}/shop.db" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")
    return Project(tmp_path, url)


@pytest.mark.parametrize("project", KINDS, indirect=True)
def test_the_tables_come_and_go_with_migrate(project):
    said = project.run(
        "makemigrations --check",
        "check",
        "migrate -v0",
        "order request-1 tea",
        "order request-1 tea",
        "makemigrations --check",
        "migrate --check",
    )
    assert said.count("No changes detected") == 2
    assert said.count("ordered\n") == 1
    assert said.count("ordered before\n") == 1
    project.run("migrate -v0 dupeproof zero")
    with connected(project.url) as connection:
        assert not connection.dialect.has_table(connection, "dupeproof_inbox")
        if project.url.startswith("postgresql"):
            [(functions,)] = schema.adapt(connection).execute(
                "SELECT count(*) FROM pg_proc WHERE proname ^@ 'dupeproof'"
            )
            assert functions == 0
    assert project.run("migrate -v0", "order request-1 tea").endswith("ordered\n")


@pytest.mark.server("postgres")
def test_migrate_makes_what_our_own_migrations_make(postgres_url, postgres_module_url, tmp_path):
    with connected(postgres_module_url) as connection:
        schema.drop(connection)
        connection.exec_driver_sql("DROP TABLE IF EXISTS django_migrations")
    project = Project(tmp_path, postgres_module_url)
    project.run("migrate -v0 dupeproof")
    with connected(postgres_module_url) as connection:
        connection.exec_driver_sql("DROP TABLE django_migrations")
    with Once(postgres_url) as once:
        once.check()
    assert catalogue(postgres_module_url) == catalogue(postgres_url)
    assert _versions(postgres_module_url) == [each.version for each in migrations()]


def _versions(url):
    with connected(url) as connection:
        return sorted(schema.applied(connection))


@pytest.mark.server("postgres")
def test_the_tables_may_have_a_schema_of_their_own(postgres_url, tmp_path):
    with connected(postgres_url) as connection:
        connection.exec_driver_sql("CREATE SCHEMA dedup")
    project = Project(tmp_path, postgres_url)
    project.environment["DATABASE"] += " OPTIONS=-csearch_path=dedup"
    said = project.run("migrate -v0", "order request-1 tea", "makemigrations --check")
    assert "ordered\n" in said
    assert "No changes" in said
    with connected(postgres_url) as connection:
        assert schema.applied(connection) == set()
        assert schema.applied(connection, "dedup")


@pytest.mark.server("postgres")
def test_migrate_takes_over_tables_that_are_there(postgres_url, tmp_path):
    with Once(postgres_url) as once:
        once.run("key", lambda: 1)
        Project(tmp_path, postgres_url).run("migrate -v0")
        assert once.run("key", lambda: 2) == 1


@pytest.mark.server("postgres")
def test_the_sql_that_django_prints_makes_the_same(postgres_url, postgres_module_url, tmp_path):
    with connected(postgres_module_url) as connection:
        schema.drop(connection)
    printed = Project(tmp_path, postgres_url).run("sqlmigrate dupeproof 0001")
    with connected(postgres_module_url) as connection:
        connection.exec_driver_sql(
            "\n".join(line for line in printed.splitlines() if line not in ("BEGIN;", "COMMIT;"))
        )
    with connected(postgres_url) as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS django_migrations")
        schema.create(connection)
    assert catalogue(postgres_module_url) == catalogue(postgres_url)


ADMIN = """
import django; django.setup()
from django.contrib.auth.models import User
from django.test import Client
User.objects.create_superuser("ada", password="ada")
client = Client()
client.login(username="ada", password="ada")
print("INDEX", client.get("/admin/").content.decode())
for name in {names}:
    page = client.get(f"/admin/dupeproof/{{name}}/")
    print(name, page.status_code, page.content.decode())
    print(name, "add", client.get(f"/admin/dupeproof/{{name}}/add/").status_code)
    assert "PermissionDenied" not in page.content.decode()
from dupeproof.django.models import DeadMessage, Record
if "record" in {names}:
    for record in Record.waiting.all():
        where = f"/admin/dupeproof/record/{{record.pk}}/change/"
        print("one", client.get(where).status_code, client.post(where, {{"state": "done"}}).status_code,
              client.post(where.replace("change", "delete"), {{"post": "yes"}}).status_code, record.created_at.year > 2000)
    print("filtered", client.get("/admin/dupeproof/record/?state=dead").content.decode().count('class="field-short"'))
print("dead", [(each.topic, each.attempts, each.died_at.year > 2000) for each in DeadMessage.objects.all()])
"""


def refuse(*_):
    raise RuntimeError("no")


def held_and_dead(url):
    """One key of each, and one that is done."""
    with Once(url, namespace="shop", on_abandoned="hold", keep_keys=True) as once:
        with once.claim("mail:42") as claim:
            claim.hold(reason="asked in vain")
        once.run("mail:43", int)
    with (
        Once(url, namespace="shop", max_attempts=1, keep_keys=True) as once,
        pytest.raises(RuntimeError, match="no"),
    ):
        once.run("mail:44", refuse)
    with Once(url, namespace="shop", max_attempts=1) as once, pytest.raises(Exception, match="attempts"):
        once.run("mail:44", refuse)


def one_dead_message(url):
    with connected(url) as connection:
        Outbox().add(connection, topic="letters", payload={}, key="k")
    with Relay(url, publisher=refuse, max_attempts=1, listen=False) as relay:
        relay.run_once()


@pytest.mark.parametrize("project", [KINDS[0], "sqlite"], indirect=True)
def test_the_admin_lists_held_and_dead_keys_and_changes_nothing(project):
    project.run("migrate -v0")
    held_and_dead(project.url)
    one_dead_message(project.url)
    said = project.run("python " + ADMIN.format(names=["record", "message", "deadmessage"]))
    assert "record 200" in said
    assert "message 200" in said
    assert "mail:42" in said
    assert "mail:44" in said
    assert "mail:43" not in said  # it is done
    assert said.count("one 200 403 403 True") == 2
    assert "filtered 1\n" in said
    assert "add 403" in said
    assert "add 200" not in said
    assert "dead [('letters', 1, True)]" in said


@pytest.mark.server("mariadb")
def test_the_admin_shows_on_mariadb_what_is_there(mariadb_url, tmp_path):
    project = Project(tmp_path, mariadb_url)
    project.run("migrate -v0")
    one_dead_message(mariadb_url)
    said = project.run("python " + ADMIN.format(names=["message", "deadmessage"]))
    assert "dead [('letters', 1, True)]" in said
    assert "/admin/dupeproof/record/" not in said


GUARDED = """
from django.http import HttpResponse
from django.urls import path
from django.views import View
from django.utils.decorators import method_decorator
from django.db import transaction
from dupeproof.http.django import Idempotent

idempotent = Idempotent(store="memory://", scope=lambda request: "all")

@idempotent
def pay(request):
    return HttpResponse("paid")

@transaction.non_atomic_requests
@idempotent
def pay_apart(request):
    return HttpResponse("paid")

@method_decorator(idempotent, name="post")
class Pay(View):
    def post(self, request):
        return HttpResponse("paid")

def look(request):
    return HttpResponse("seen")

urlpatterns += [path("pay", pay), path("apart", pay_apart), path("class", Pay.as_view()), path("look", look)]
"""


def test_the_checks_find_guarded_views_in_atomic_requests(project):
    project.add("urls.py", GUARDED)
    assert "no issues" in project.run("check")
    project.add("settings.py", '\nDATABASES["default"]["ATOMIC_REQUESTS"] = True\n')
    said = project.run("check")
    assert said.count("dupeproof.W003") == 2
    assert "shop.urls.pay:" in said
    assert "shop.urls.Pay:" in said


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ("", None),
        ("DUPEPROOF_HTTP = {'store': 'memory://', 'scope': 'x.y'}", "dupeproof.W001"),
        ("MIDDLEWARE = [*MIDDLEWARE, GUARD]", "dupeproof.E001"),
        ("DUPEPROOF_HTTP = {'store': 'memory://', 'scope': 'x.y'}; MIDDLEWARE = [*MIDDLEWARE, GUARD]", None),
        (
            "DUPEPROOF_HTTP = {'store': 'memory://', 'scope': 'x.y'}; MIDDLEWARE = [*MIDDLEWARE, GUARD, GUARD]",
            "dupeproof.E002",
        ),
        (
            "DUPEPROOF_HTTP = {'store': 'memory://', 'scope': 'x.y'}; MIDDLEWARE = [GUARD, *MIDDLEWARE]",
            "dupeproof.W002",
        ),
    ],
)
def test_the_checks_find_what_is_wrong_with_the_middleware(project, settings, found):
    project.add("settings.py", f'\nGUARD = "dupeproof.http.django.IdempotencyMiddleware"\n{settings}\n')
    said = project.run("check", fails=found is not None and ".E" in found)
    assert ("no issues" in said) is (found is None)
    assert found is None or found in said


def test_the_newest_migration_of_django_goes_to_the_newest_of_ours(project):
    newest = migrations()[-1].version
    code = (
        "python import django; django.setup()\n"
        "from django.db.migrations.loader import MigrationLoader\n"
        "from dupeproof.django.operations import Schema\n"
        "all = MigrationLoader(None).disk_migrations\n"
        "print('newest', max(op.to for (app, _), each in all.items() if app == 'dupeproof'"
        " for op in each.operations if isinstance(op, Schema)))"
    )
    assert f"newest {newest}\n" in project.run(code)
