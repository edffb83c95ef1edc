"""A fresh machine in a folder: it leaves nothing behind, however it ends."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dupeproof.testing.servers import wait_until, warden

FRESH = Path(__file__).parents[2] / "tools" / "fresh.py"


@pytest.fixture
def temporary():
    """Not pytest's own, which apt's user may not enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def begun(temporary):
    """One that is being made: its process, and all that this one started."""
    if os.geteuid() != 0:
        pytest.skip("it needs root")
    command = [sys.executable, FRESH, "true"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}) as run:
        wait_until(lambda: run.poll() is not None or any(temporary.glob("*/root/var/lib/dpkg")), what="it")
        yield run, warden.tree(run.pid)[1:]
        run.kill()


def mounted_under(folder):
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]


@pytest.mark.tool("mmdebstrap")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_interrupted_leaves_nothing(begun, temporary, number):
    run, pids = begun
    assert len(pids) > 2
    assert run.poll() is None
    assert not mounted_under(temporary)
    run.send_signal(number)
    assert run.wait() == 128 + number
    assert not any(map(warden.running, pids))
    assert not any(temporary.iterdir())


@pytest.mark.tool("mmdebstrap")
def test_one_that_is_killed_leaves_a_folder_and_nothing_that_runs(begun, temporary):
    run, pids = begun
    run.kill()
    run.wait()
    wait_until(lambda: not any(map(warden.running, pids)), what="something outlived it")
    assert not mounted_under(temporary)
