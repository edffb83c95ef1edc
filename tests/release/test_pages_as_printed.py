"""The HTTP examples of the how-tos, started as they are printed, where nothing is installed but what they name."""

import contextlib
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from dupeproof_lab.servers import process
from dupeproof_lab.servers.base import wait_until

ROOT = Path(__file__).parents[2]


class Page:
    """What a page has the reader type."""

    def __init__(self, path, *, part=""):
        text = (ROOT / path).read_text()
        if part:
            _, _, rest = text.partition(f"\n## {part}\n")
            text = rest.partition("\n## ")[0]
        fences = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.python = [code for kind, code in fences if kind == "python"]
        self.lines = [line for kind, code in fences if kind == "" for line in code.splitlines()]

    def line(self, program):
        """The words after the first command of this name."""
        line = next(line for line in self.lines if line.startswith(f"{program} "))
        return shlex.split(line, comments=True)[1:]


class Reader:
    """Types it, in a folder of their own."""

    def __init__(self, clean, folder, words):
        self._clean = clean
        self.folder = folder
        verb, *requirements = words
        assert verb == "install"
        self._env = {"PYTHONPATH": str(clean.having(*requirements)), "PYTHONNOUSERSITE": "1"}
        self.port = process.free_port()

    def run(self, *words):
        ran = subprocess.run(
            [self._clean.python, *words],
            cwd=self.folder,
            env={**self._env, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    @contextlib.contextmanager
    def serving(self, *words, **env):
        log = self.folder / "log"
        with log.open("wb") as file:
            server = process.spawn(
                [self._clean.python, *words],
                cwd=self.folder,
                log=file,
                env={**self._env, **env},
                end_signal=signal.SIGKILL,
            )

        def answers():
            assert server.poll() is None, log.read_text()
            with contextlib.suppress(ConnectionError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return True
            return False

        try:
            wait_until(answers, what="the example")
            yield f"http://127.0.0.1:{self.port}"
        finally:
            server.kill()
            process.forget(server)


@pytest.fixture
def reader(clean, tmp_path):
    """`reader(words)`: who has typed `pip`, and these."""
    return lambda words: Reader(clean, tmp_path, words)


def asked(curl, words, port):
    """Status, headers, body."""
    words = [word.replace("localhost:8000", f"127.0.0.1:{port}") for word in words]
    ran = subprocess.run([curl, "--silent", *words], capture_output=True, check=True, timeout=20)
    head, _, body = ran.stdout.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = httpx.Headers([tuple(line.split(": ", 1)) for line in lines])
    return int(status.split()[1]), headers, body


SERVED = {
    "docs/howto/http.md": Page("docs/howto/http.md"),
    "docs/howto/fastapi.md": Page("docs/howto/fastapi.md"),
    "docs/howto/browsers.md": Page("docs/howto/browsers.md"),
}


@pytest.mark.parametrize("name", SERVED)
def test_an_app_is_served_and_asked_as_its_page_says(reader, curl, name):
    page = SERVED[name]
    typing = reader(page.line("pip"))
    (typing.folder / "shop.py").write_text(page.python[0])
    with typing.serving("-m", "uvicorn", *page.line("uvicorn"), "--port", str(typing.port)):
        first, retry = (asked(curl, page.line("curl"), typing.port) for _ in range(2))
    assert (first[0], "Idempotent-Replayed" in first[1]) == (201, False)
    assert (retry[0], retry[2], retry[1]["Idempotent-Replayed"]) == (201, first[2], "true")
    log = (typing.folder / "log").read_text()
    assert "Warning" not in log
    assert "Traceback" not in log


def test_the_webhook_receiver_is_served_and_asked_as_its_page_says(reader, curl):
    page = Page("docs/howto/webhook.md")
    typing = reader(page.line("pip"))
    (typing.folder / "shop.py").write_text(page.python[0])
    for _ in range(2):  # it may be started again
        with typing.serving("-m", "uvicorn", *page.line("uvicorn"), "--port", str(typing.port)):
            assert [asked(curl, page.line("curl"), typing.port)[0] for _ in range(2)] == [204, 204]
    count = "import sqlite3; print(sqlite3.connect('shop.db').execute('SELECT count(*) FROM payments').fetchone())"
    assert typing.run("-c", count) == "(1,)\n"


def test_the_form_is_served_as_its_page_says(reader):
    page = Page("docs/howto/forms.md")
    typing = reader(page.line("pip"))
    (typing.folder / "shop.py").write_text(page.python[0])
    with (
        typing.serving("-m", "flask", "--app", "shop", "run", "--port", str(typing.port)) as url,
        httpx.Client(base_url=url, headers={"X-Customer": "c-1"}) as client,
    ):
        [token] = re.findall('value="(.+?)"', client.get("/").text)
        first, second = (client.post("/orders", data={"dedup_token": token}) for _ in range(2))
        assert first.status_code == second.status_code == 303
        assert first.headers["Location"] == second.headers["Location"]


MODEL = """
from django.db import models


class Order(models.Model):
    item = models.CharField(max_length=20)
"""
SET_UP = """
import os

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django

django.setup()
from django.core.management import call_command

call_command("makemigrations", "orders", verbosity=0)
call_command("migrate", verbosity=0)
from django.contrib.auth.models import User

ann = User.objects.create_user("ann")
"""
SESSION = """
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

session = SessionStore()
backend = "django.contrib.auth.backends.ModelBackend"
session.update({SESSION_KEY: ann.pk, BACKEND_SESSION_KEY: backend, HASH_SESSION_KEY: ann.get_session_auth_hash()})
session.save()
print(session.session_key)
"""
TOKEN = "from rest_framework.authtoken.models import Token; print(Token.objects.create(user=ann).key)"
GUARD, USERS = (
    '    "dupeproof.http.django.IdempotencyMiddleware",',
    "    'django.contrib.auth.middleware.AuthenticationMiddleware',",
)


def new_project(typing, *, views, urls, apps=()):
    """What Django's own commands make, with these views of the model Order."""
    typing.run("-m", "django", "startproject", "shop", ".")
    typing.run("manage.py", "startapp", "orders")
    settings = typing.folder / "shop/settings.py"
    with settings.open("a") as file:
        file.write(f"INSTALLED_APPS += {['orders', *apps]!r}\n")
    (typing.folder / "orders/models.py").write_text(MODEL)
    for name, code in views.items():
        (typing.folder / f"orders/{name}.py").write_text(f"from orders.models import Order\n{code}")
    (typing.folder / "shop/urls.py").write_text(f"from django.urls import include, path\n{urls}\n")
    return settings


def check_orders(typing, path, **options):
    """Two requests are one order."""
    with typing.serving("-Wdefault", "manage.py", "runserver", "--noreload", str(typing.port)) as url:
        first, retry = (httpx.post(f"{url}{path}", **options) for _ in range(2))
    assert first.status_code == 201
    assert "Idempotent-Replayed" not in first.headers
    assert (retry.status_code, retry.content) == (201, first.content)
    assert retry.headers["Idempotent-Replayed"] == "true"
    assert "stands inside" not in (typing.folder / "log").read_text()


def a_session(typing):
    """As a browser has it, whose page has a form."""
    cookies = f"sessionid={typing.run('-c', SET_UP + SESSION).strip()}; csrftoken={'t' * 32}"
    return {"Cookie": cookies, "X-CSRFToken": "t" * 32, "Idempotency-Key": "k-1"}


def test_a_project_of_django_is_guarded_by_the_settings_of_the_page(reader):
    page = Page("docs/howto/django.md", part="Django")
    printed, view = page.python
    assert GUARD in printed
    plain = view.replace("@idempotent\n", "")
    assert plain != view
    typing = reader(page.line("pip"))
    urls = "from orders import views\nurlpatterns = [path('orders', views.order)]"
    settings = new_project(typing, views={"views": plain}, urls=urls)
    whole = settings.read_text()
    assert whole.count(USERS) == 1
    settings.write_text(
        whole.replace(USERS, f"{USERS}\n{GUARD}") + printed[printed.index("DUPEPROOF_HTTP") :]
    )
    check_orders(typing, "/orders", data={"item": "tea"}, headers=a_session(typing))


def test_a_view_of_django_is_guarded_by_the_decorator_of_the_page(reader):
    page = Page("docs/howto/django.md", part="Django")
    typing = reader(page.line("pip"))
    urls = "from orders import views\nurlpatterns = [path('orders', views.order)]"
    new_project(typing, views={"views": page.python[1]}, urls=urls)
    check_orders(typing, "/orders", data={"item": "tea"}, headers=a_session(typing))


def test_the_views_of_rest_framework_are_served_as_their_page_has_them(reader):
    page = Page("docs/howto/django.md", part="Django REST framework")
    typing = reader(page.line("pip"))
    urls = (
        "from rest_framework.routers import SimpleRouter\nfrom orders import views\nrouter = SimpleRouter()\n"
        "router.register('orders', views.Orders)\nurlpatterns = [*router.urls, path('refunds', views.refund)]"
    )
    apps = ("rest_framework", "rest_framework.authtoken")
    new_project(typing, views={"views": page.python[0]}, urls=urls, apps=apps)
    headers = {
        "Authorization": f"Token {typing.run('-c', SET_UP + TOKEN).strip()}",
        "Idempotency-Key": "k-1",
    }
    check_orders(typing, "/orders/", json={"item": "tea"}, headers=headers)


def test_the_operation_of_ninja_is_served_as_its_page_has_it(reader):
    page = Page("docs/howto/django.md", part="django-ninja")
    typing = reader(page.line("pip"))
    urls = "from orders.api import api\nurlpatterns = [path('', api.urls)]"
    new_project(typing, views={"api": page.python[0]}, urls=urls)
    typing.run("-c", SET_UP)
    headers = {"Authorization": "Bearer ann", "Idempotency-Key": "k-1"}
    check_orders(typing, "/orders", json={"item": "tea"}, headers=headers)


EXAMPLES = Page("examples/README.md")
"""Each line installs and starts one."""
STARTED = {
    script: shlex.split(install)[1:]
    for line in EXAMPLES.lines
    if line.startswith("pip ")
    and not re.search("order_flow|alembic_orders|django_shop", line)  # which serve nothing
    for install, script in [re.split(r"\s+&& python ", line)]
}


@pytest.mark.parametrize("script", STARTED)
def test_an_example_needs_what_its_line_installs(reader, curl, script):
    typing = reader(STARTED[script])
    with typing.serving(ROOT / script, PORT=str(typing.port)) as url:
        if "double_click" in script:
            assert "dedup_token" in httpx.get(url).text
        else:
            first, retry = (asked(curl, EXAMPLES.line("curl"), typing.port) for _ in range(2))
            assert (first[0], retry[0], retry[2]) == (201, 201, first[2])
            assert retry[1]["Idempotent-Replayed"] == "true"


def test_every_example_that_is_served_has_such_a_line():
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "examples").rglob("*.py")}
    assert there & STARTED.keys() == STARTED.keys()
    assert len(STARTED) == 6
