"""`dupeproof console`: on this machine only, until it is told to end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import httpx
import pytest
from console_data import TOKEN, digest_of

from dupeproof import Once
from dupeproof.cli.app import run
from dupeproof_lab.servers import wait_until


def start(*arguments, **env):
    return subprocess.Popen(
        [sys.executable, "-m", "dupeproof", "console", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )


@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)])
def test_it_serves_on_the_loopback_and_writes_the_audit_to_standard_error(url, end, code):
    with start(url, "--port", "0", DUPEPROOF_CONSOLE_TOKEN=TOKEN) as running:
        address = running.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        with urlopen(address, timeout=10) as answer:
            assert "Sign in to change" in answer.read().decode()
        # Whoever is here is believed to be a proxy by uvicorn, and could write another address into the audit.
        forged = {"Origin": address.rstrip("/"), "X-Forwarded-For": "203.0.113.9"}
        wrong = Request(f"{address}sign-in", data=b"token=wrong", headers=forged)
        with pytest.raises(HTTPError, match="403"):
            urlopen(wrong, timeout=10)
        with pytest.raises(HTTPError, match="403"):
            urlopen(Request(address, headers={"Host": "rebound.example"}), timeout=10)
        running.send_signal(end)
        _, errors = running.communicate(timeout=20)
    assert "dupeproof.audit somebody at 127.0.0.1: sign in console: refused: wrong token" in errors
    assert "Traceback" not in errors
    assert running.returncode == code


def test_a_port_that_is_taken_is_told_so(url, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["console", url, "--port", str(taken.getsockname()[1])]) == 2
    assert "choose another with --port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["sqlite:///nowhere.db"], "there is no file nowhere.db"),
        (["memory://"], "lives and dies inside one process"),
        (["redis://localhost", "--token", "short"], "fewer than 16 bytes"),
        (
            ["redis://localhost", "--user", "ann:hunter2hunter2hunter2"],
            "each user of the console is a line NAME=TOKEN",
        ),
        (["redis://localhost", "--user", "ann=hunter2"], "the token of ann has fewer than 16 bytes"),
        (["redis://localhost", "--users-file", "nowhere"], "--users-file nowhere cannot be read"),
        (["redis://localhost", "--settle", "nowhere:lookup"], "nowhere:lookup cannot be imported"),
        (["redis://localhost", "--settle", "lookup"], "write it as shop.payments:lookup"),
        (["redis://localhost", "--database", "redis://u:hunter2@h"], "is not where an outbox can be"),
    ],
)
def test_wrong_use_is_told_so_without_a_secret(arguments, text, capsys):
    assert run(["console", *arguments]) == 2
    said = capsys.readouterr().err
    assert text in said
    assert "hunter2" not in said


def test_people_are_given_by_option_by_file_and_by_environment(url, tmp_path):
    file = tmp_path / "people"
    file.write_text("# on call\nbob = the=token=of=bob=is=long\n")
    people = {"ann": "the-token-of-ann-lee", "bob": "the=token=of=bob=is=long", "eve": "eve-has-one-as-well"}
    given = ("--user", f"ann={people['ann']}", "--users-file", str(file))
    with start(url, "--port", "0", *given, DUPEPROOF_CONSOLE_USERS=f"eve={people['eve']}\n") as running:
        address = running.stdout.readline().strip()
        for name, token in people.items():
            form = Request(
                f"{address}sign-in",
                data=urlencode({"token": token}).encode(),
                headers={"Origin": address[:-1]},
            )
            with urlopen(form, timeout=10) as answer:
                assert answer.status == 200, name
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=20)
    assert [f"dupeproof.audit {name}: sign in console: done" in errors for name in people] == [True] * 3
    assert not any(token in errors for token in people.values())


def test_its_charts_show_what_comes_into_the_store(url):
    with Once(url) as once, start(url, "--port", "0") as running:
        address = running.stdout.readline().strip()

        def arriving():
            once.fresh([f"m-{os.urandom(8).hex()}" for _ in range(20)])
            with urlopen(address, timeout=10) as answer:
                found = re.search(r"new keys a second</dt><dd>([\d.,]+)<", answer.read().decode())
            return found is not None and float(found[1].replace(",", "")) > 1

        wait_until(arriving, what="the rate of new keys")
        with urlopen(address, timeout=10) as answer:
            assert "A replayed call leaves no trace in the store" in answer.read().decode()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=20)


def test_a_lookup_of_ones_own_is_offered_and_asked(url, tmp_path):
    (tmp_path / "shop_payments.py").write_text(
        "from dupeproof import Done\n\n\ndef lookup(entry):\n    return Done(len(entry.digest))\n"
    )
    given = ("--settle", "shop_payments:lookup", "--show-results")
    with start(
        url, "--port", "0", *given, DUPEPROOF_CONSOLE_TOKEN=TOKEN, PYTHONPATH=str(tmp_path)
    ) as running:
        address = running.stdout.readline().strip()
        with httpx.Client(
            base_url=address, headers={"Origin": address[:-1]}, follow_redirects=True
        ) as person:
            person.post("/sign-in", data={"token": TOKEN})
            chosen = {"digest": digest_of("held"), "action": "settle"}
            preview = person.post("/keys/confirm", data=chosen).text
            assert "done, with 32" in preview
            hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', preview))
            assert "1 of 1 key settled" in person.post("/keys/change", data=hidden).text
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=20)
    assert f"dupeproof.audit operator: settle {digest_of('held')[:12]}: settled: done" in errors
    with Once(url) as once:
        assert once.get("held").result == 32


def test_programs_are_told_the_address_in_json(url):
    with start(url, "--port", "0", "--json") as running:
        address = json.loads(running.stdout.readline())["url"]
        with urlopen(address, timeout=10) as answer:
            assert answer.status == 200
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=20)
    assert rest == ""
