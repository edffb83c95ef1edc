"""`dupeproof exporter` serves what stores hold until it is told to end."""

import signal
import socket
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from exporter_faults import hold

from dupeproof import Once
from dupeproof.cli.app import run


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path}/dedup.db"
    with Once(url, namespace="billing", on_error="hold") as once:
        hold(once, "a")
    return url


def read(address):
    with urlopen(address, timeout=20) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_what_the_stores_hold_until_it_is_told_to_end(url, shop, end):
    other, add = shop
    add(2)
    command = [sys.executable, "-m", "dupeproof", "exporter", url, other, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        address = running.stdout.readline().strip()
        kind, text = read(address)
        assert kind.startswith("text/plain; version=")
        assert f'dupeproof_store_keys{{namespace="billing",state="held",store="{url}"}} 1.0' in text
        assert f'dupeproof_store_outbox_backlog{{store="{other}"}} 2.0' in text
        assert read(address.replace("/metrics", "/healthz"))[1] == "ok\n"
        with pytest.raises(HTTPError, match="404"):
            read(address.replace("/metrics", "/nothing"))
        running.send_signal(end)
        assert running.communicate(timeout=20) == ("", "")
    assert running.returncode == 0


def test_a_store_that_is_not_there_is_shown_as_down_and_does_not_end_it(url):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    secret = f"redis://:hunter2@127.0.0.1:{port}/0?timeout=200ms"
    command = [sys.executable, "-m", "dupeproof", "exporter", url, secret, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        address = running.stdout.readline().strip()
        _, text = read(address)
        assert f'dupeproof_store_up{{store="{url}"}} 1.0' in text
        assert f'dupeproof_store_up{{store="redis://:***@127.0.0.1:{port}/0?…"}} 0.0' in text
        running.terminate()
        _, complaints = running.communicate(timeout=20)
    assert "cannot be read" in complaints
    assert "hunter2" not in text + complaints
    assert running.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["sqlite:///nowhere.db"], "there is no file nowhere.db"),
        (["memory://"], "lives and dies inside one process"),
        (["nosuch://x"], "not a store URL"),
        (["redis://h", "--interval", "often"], "is not a duration"),
        ([], "which store?"),
    ],
)
def test_bad_input_is_told(arguments, text, capsys, monkeypatch):
    monkeypatch.delenv("DUPEPROOF_URL", raising=False)
    assert run(["exporter", *arguments, "--port", "0"]) == 2
    assert text in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_so(url, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["exporter", url, "--port", str(taken.getsockname()[1])]) == 2
    assert "choose another with --port" in capsys.readouterr().err


def test_without_its_extra_it_names_it(url):
    hidden = (
        "import sys; sys.modules['prometheus_client'] = None; from dupeproof.cli.app import run; "
        f"sys.exit(run(['exporter', {url!r}, '--port', '0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert 'pip install "dupeproof[metrics]"' in done.stderr
