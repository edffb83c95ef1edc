"""The demo itself: real processes, really killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest


def start(folder, *options, **how):
    command = [sys.executable, "-m", "dupeproof", "demo", "--json", "--out", str(folder), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


def heed_interrupts():
    """Whatever we run under: what a shell puts into the background ignores Ctrl-C, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def children(pid):
    """The processes a process has started, and theirs; some of them are killed while we look."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *children(child)]
    return found


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_dupeproof_charges_every_order_once_where_others_double_and_lose(tmp_path):
    demo = start(tmp_path / "out", "--orders", "200", "--seed", "7")
    shown, complaints = demo.communicate()
    assert demo.returncode == 0, complaints
    found = msgspec.json.decode(shown)
    naive, first, ours = (found["consumers"][name] for name in ("naive", "mark_first", "dupeproof"))
    assert found["proven"] is True
    assert (ours["duplicates"], ours["losses"], ours["strangers"]) == (0, 0, 0)
    # More than the producer sent twice: the rest was charged and then killed before its ack.
    assert naive["duplicates"] > naive["messages"] - 200
    assert naive["losses"] == 0
    assert first["losses"] > 0
    assert first["duplicates"] == 0
    assert min(each["kills"] for each in found["consumers"].values()) >= 20
    assert ours["questions"] > 0
    assert Path(found["page"]).exists()
    assert Path(found["picture"]).exists()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_running_when_the_demo_is_stopped(tmp_path, end):
    demo = start(
        tmp_path / "out",
        "--orders",
        "5000",
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=heed_interrupts,
    )
    while len(started := children(demo.pid)) < 6:
        time.sleep(0.01)
    demo.send_signal(end)
    demo.communicate()
    while any(map(is_running, started)):
        time.sleep(0.01)
    if end is signal.SIGINT:
        assert demo.returncode == 130
        assert not list(tmp_path.glob("dupeproof-demo-*"))
