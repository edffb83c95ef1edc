"""Whatever ends the process that started them, no server outlives it."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dupeproof_lab.servers import wait_until, warden

pytestmark = pytest.mark.server("redis", "postgres")

STARTED = """
import os, sys, time
from dupeproof_lab.servers import Postgres, Redis, warden
redis, postgres = Redis(), Postgres()
redis.start(); postgres.start()
print(redis.home, postgres.home, *warden.tree(redis.pid), *warden.tree(postgres.pid), flush=True)
"""
STARTING = """
from dupeproof_lab.servers import Postgres
Postgres().start()
"""


@pytest.fixture
def temporary(monkeypatch):
    """Not pytest's own: nobody but its owner, so not PostgreSQL when we are root, may enter that."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def started(ending):
    """Run it until the servers are up: the process, the servers' folders, their process ids."""
    command = [sys.executable, "-c", STARTED + ending]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with run.stdout:
        words = run.stdout.readline().split()
    pids = [int(word) for word in words[2:]]
    assert len(pids) > 2
    return run, words[:2], pids


def nothing_is_left(folders, pids):
    wait_until(
        lambda: not any(map(warden.running, pids)) and not any(map(os.path.exists, folders)),
        seconds=20,
        what="a server outlived the process that started it",
    )


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("time.sleep(60)", id="at rest"),
        pytest.param("redis.pause(); postgres.pause(); time.sleep(60)", id="servers paused"),
        pytest.param("os.fork(); time.sleep(60)", id="a forked child lives on"),
    ],
)
def test_none_is_left_when_the_run_is_killed(temporary, ending):
    run, folders, pids = started(ending)
    # Redis is one process; of PostgreSQL's, the one that answered whether it is up may be gone by now.
    assert all(map(warden.running, pids[:2]))
    children = set(warden.tree(run.pid)) - {run.pid, *pids}
    run.kill()
    run.wait()
    nothing_is_left(folders, pids)
    warden.send([pid for pid in children if warden.running(pid)], signal.SIGKILL)  # the forked child


def test_none_is_left_when_nobody_stopped_them(temporary):
    run, folders, pids = started("")
    assert run.wait() == 0
    nothing_is_left(folders, pids)


def test_none_is_left_when_the_run_is_killed_while_one_starts(temporary):
    run = subprocess.Popen([sys.executable, "-c", STARTING])
    wait_until(lambda: any(temporary.glob("*/data/global")), seconds=20, what="initdb has not begun")
    pids = warden.tree(run.pid)[1:]
    run.kill()
    run.wait()
    nothing_is_left(temporary.iterdir(), pids)
    wait_until(lambda: not any(temporary.iterdir()), seconds=20, what="its folder is still there")
