"""The HTTP examples of README and the how-tos, started as they are printed, where nothing is installed but what they name."""

import contextlib
import json
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from dupeproof.testing.servers import process
from dupeproof.testing.servers.base import wait_until

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

    def __init__(self, clean, folder, page):
        self._clean = clean
        self.folder = folder
        verb, *requirements = page.line("pip")
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
    def serving(self, *words):
        log = self.folder / "log"
        with log.open("wb") as file:
            server = process.spawn(
                [self._clean.python, *words],
                cwd=self.folder,
                log=file,
                env=self._env,
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
    return lambda page: Reader(clean, tmp_path, page)


def asked(curl, words, port):
    """Status, headers, body."""
    words = [word.replace("localhost:8000", f"127.0.0.1:{port}") for word in words]
    ran = subprocess.run([curl, "--silent", *words], capture_output=True, check=True, timeout=20)
    head, _, body = ran.stdout.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = httpx.Headers([tuple(line.split(": ", 1)) for line in lines])
    return int(status.split()[1]), headers, body


SERVED = {
    "README.md": Page("README.md", part="Retry-safe endpoints"),
    "docs/howto/fastapi.md": Page("docs/howto/fastapi.md"),
    "docs/howto/browsers.md": Page("docs/howto/browsers.md"),
}


@pytest.mark.parametrize("name", SERVED)
def test_an_app_is_served_and_asked_as_its_page_says(reader, curl, name):
    page = SERVED[name]
    typing = reader(page)
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
    typing = reader(page)
    (typing.folder / "shop.py").write_text(page.python[0])
    for _ in range(2):  # it may be started again
        with typing.serving("-m", "uvicorn", *page.line("uvicorn"), "--port", str(typing.port)):
            assert [asked(curl, page.line("curl"), typing.port)[0] for _ in range(2)] == [204, 204]
    count = "import sqlite3; print(sqlite3.connect('shop.db').execute('SELECT count(*) FROM payments').fetchone())"
    assert typing.run("-c", count) == "(1,)\n"


def test_the_form_is_served_as_its_page_says(reader):
    page = Page("docs/howto/forms.md")
    typing = reader(page)
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
SESSION = """
import os

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django

django.setup()
from django.contrib.auth import SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command

call_command("makemigrations", "orders", verbosity=0)
call_command("migrate", verbosity=0)
ann = User.objects.create_user("ann")
session = SessionStore()
backend = "django.contrib.auth.backends.ModelBackend"
session.update({SESSION_KEY: ann.pk, BACKEND_SESSION_KEY: backend, HASH_SESSION_KEY: ann.get_session_auth_hash()})
session.save()
print(session.session_key)
"""
GUARD, USERS = (
    '    "dupeproof.http.django.IdempotencyMiddleware",',
    "    'django.contrib.auth.middleware.AuthenticationMiddleware',",
)


def test_a_project_of_django_is_guarded_as_the_page_says(reader):
    """A new project, with the settings of the page in it, its view, and a user who is logged in."""
    page = Page("docs/howto/django.md", part="Django")
    settings, view = page.python
    assert GUARD in settings
    typing = reader(page)
    typing.run("-m", "django", "startproject", "shop", ".")
    typing.run("manage.py", "startapp", "orders")
    of_project = typing.folder / "shop/settings.py"
    whole = of_project.read_text()
    assert whole.count(USERS) == 1
    whole = whole.replace(USERS, f"{USERS}\n{GUARD}").replace(
        "INSTALLED_APPS = [", 'INSTALLED_APPS = ["orders",'
    )
    of_project.write_text(whole + settings[settings.index("DUPEPROOF_HTTP") :])
    (typing.folder / "orders/models.py").write_text(MODEL)
    unguarded = view.replace("@idempotent\n", "")
    assert unguarded != view
    (typing.folder / "orders/views.py").write_text(f"from orders.models import Order\n{unguarded}")
    decorated = f"from orders.models import Order\n{view}"
    (typing.folder / "orders/decorated.py").write_text(decorated)
    (typing.folder / "shop/urls.py").write_text(
        "from django.urls import path\nfrom orders import decorated, views\n"
        "urlpatterns = [path('orders', views.order), path('decorated', decorated.order)]\n"
    )
    token = "t" * 32
    cookies = {"sessionid": typing.run("-c", SESSION).strip(), "csrftoken": token}
    with (
        typing.serving("-Wdefault", "manage.py", "runserver", "--noreload", str(typing.port)) as url,
        httpx.Client(base_url=url, cookies=cookies, headers={"X-CSRFToken": token}) as client,
    ):
        for number, path in enumerate(("/orders", "/decorated"), 1):
            asking = {"data": {"item": "tea"}, "headers": {"Idempotency-Key": path[1:]}}
            first, retry = (client.post(path, **asking) for _ in range(2))
            assert (first.status_code, json.loads(first.content)) == (201, {"number": number})
            assert (retry.status_code, retry.content) == (201, first.content)
            assert retry.headers["Idempotent-Replayed"] == "true"
    assert "stands inside" not in (typing.folder / "log").read_text()
