"""The ways in which programs make worker processes, each with a guard that was in use before: every key runs once.

uWSGI forks in C, so that Python is not told. gunicorn and Celery fork in Python, gunicorn also with the application loaded
before, and with greenlets in place of threads.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.stores import SHARED, on
from support.workers import wait_for

PROCESSES = 4
KEYS = [f"key-{number}" for number in range(100)]
FOLDER = str(Path(__file__).parent.parent / "support")
BIN = Path(sys.executable).parent
SERVERS = {
    "uwsgi": [
        *(BIN / "uwsgi", "--http-socket", "127.0.0.1:{port}", "--master", "--processes", str(PROCESSES)),
        *(
            "--need-app",
            "--die-on-term",
            "--wsgi",
            "prefork_app",
            "--pythonpath",
            FOLDER,
            "--home",
            sys.prefix,
        ),
    ],
    "gunicorn": [BIN / "gunicorn", "--bind", "127.0.0.1:{port}", "--workers", str(PROCESSES), "prefork_app"],
    "gunicorn-preload": [
        *(BIN / "gunicorn", "--bind", "127.0.0.1:{port}", "--workers", str(PROCESSES)),
        *("--preload", "prefork_app"),
    ],
    "gunicorn-threads": [
        *(BIN / "gunicorn", "--bind", "127.0.0.1:{port}", "--workers", str(PROCESSES)),
        *("--preload", "--threads", "4", "prefork_app"),
    ],
    "gevent": [
        *(BIN / "gunicorn", "--bind", "127.0.0.1:{port}", "--workers", str(PROCESSES)),
        *("--worker-class", "gevent", "prefork_app"),
    ],
}


@pytest.fixture
def environment(url, tmp_path):
    return {
        **os.environ,
        "STORE_URL": url,
        "NAMESPACE": f"prefork-{os.getpid()}-{tmp_path.name}"[:64],
        "LEDGER": str(tmp_path / "ledger"),
        "PYTHONPATH": FOLDER,
    }


@pytest.fixture
def started(environment, tmp_path):
    """Starts a command, and ends it with all its processes when the test is over."""
    running = []

    def start(command, **more):
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [*map(str, command)],
                env={**environment, **more},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        running.append(process)
        return process

    yield start
    for process in running:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)


def runs(environment):
    ledger = Path(environment["LEDGER"])
    return Counter(ledger.read_text().split() if ledger.exists() else ())


@on(*SHARED)
@pytest.mark.parametrize("server", SERVERS)
def test_a_key_asked_of_all_processes_at_once_runs_once(environment, started, tmp_path, server):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = started([str(word).format(port=port) for word in SERVERS[server]])

    def ask(key):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/?key={key}", timeout=60) as answer:
            return answer.read()

    def answers():
        assert process.poll() is None, (tmp_path / "log").read_text()
        try:
            return ask("first")
        except OSError:
            return None

    wait_for(answers, what=f"{server} to answer")
    with ThreadPoolExecutor(2 * PROCESSES) as pool:
        # The processes come up one after the other; the first one may answer hundreds before the second is there.
        wait_for(
            lambda: len(set(pool.map(ask, ["first"] * 4 * PROCESSES))) > 1,
            what=f"several processes of {server} to answer",
            seconds=60,
        )
        seen_by = set(pool.map(ask, [key for key in KEYS for _ in range(PROCESSES)]))
    assert len(seen_by) > 1, "one process has answered them all"
    assert runs(environment) == dict.fromkeys(["first", *KEYS], 1)


@on(*SHARED)
def test_a_key_sent_to_all_celery_processes_at_once_runs_once(environment, started, own_redis, url):
    broker = own_redis().url
    started(
        [
            BIN / "celery",
            "--app",
            "prefork_app:celery",
            "worker",
            "--concurrency",
            PROCESSES,
            "--loglevel",
            "ERROR",
        ],
        BROKER_URL=broker,
    )
    send = "import prefork_app, json, sys; [prefork_app.work.delay(k) for k in json.load(sys.stdin) for _ in range(4)]"
    subprocess.run(
        [sys.executable, "-c", send],
        input=str(KEYS).replace("'", '"'),
        env={**environment, "BROKER_URL": broker},
        text=True,
        check=True,
        timeout=120,
    )
    wait_for(lambda: len(runs(environment)) == len(KEYS), what="all keys to have run", seconds=60)
    assert runs(environment) == dict.fromkeys(KEYS, 1)


@on(*SHARED)
@pytest.mark.parametrize("kind", ["gevent", "eventlet"])
def test_greenlets_run_each_key_once(url, kind):
    run = subprocess.run(
        [sys.executable, "-W", "ignore", Path(FOLDER) / "greenlets_main.py", kind, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert set(json.loads(run.stdout).values()) == {1}
