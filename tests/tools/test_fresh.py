"""A fresh machine in a folder: it has the machine's settings, and leaves nothing behind, however it ends."""

import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dupeproof_lab.servers import wait_until, warden

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


def test_the_settings_are_taken_along_with_the_files_they_name(tmp_path, monkeypatch):
    home, wheels, own = tmp_path / "home", tmp_path / "wheels", tmp_path / "own.crt"
    for file in (home / ".m2/settings.xml", wheels / "some.whl", own):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("the machine's")
    root = tmp_path / "root"
    (root / own.parent.relative_to("/")).mkdir(parents=True)
    (root / own.relative_to("/")).write_text("the new system's")
    monkeypatch.setenv("HOME", str(home))
    fresh = runpy.run_path(str(FRESH))
    fresh["take_along"](root, {"PIP_FIND_LINKS": f"https://example.org {wheels}", "SSL_CERT_FILE": str(own)})
    assert (root / "root/.m2/settings.xml").read_text() == "the machine's"
    assert (root / wheels.relative_to("/") / "some.whl").exists()
    assert (root / own.relative_to("/")).read_text() == "the new system's"


def test_of_the_variables_those_that_lead_to_the_network_are_taken_along():
    taken = runpy.run_path(str(FRESH))["VARIABLES"].fullmatch
    for name in (
        "http_proxy",
        "HTTPS_PROXY",
        "no_proxy",
        "PIP_INDEX_URL",
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
    ):
        assert taken(name), name
    for name in ("HOME", "PATH", "REDIS_URL", "GITHUB_TOKEN", "MAKEFLAGS"):
        assert not taken(name), name


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
