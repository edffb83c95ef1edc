"""`make overhead` measures, wherever it is run first. What it finds is not judged here."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.server("redis")
def test_the_middleware_is_measured_beside_the_bare_app(wrk):
    command = [sys.executable, Path(__file__).with_name("overhead.py"), "--rounds", "1", "--seconds", "1"]
    done = subprocess.run(
        [*command, "--contenders", "bare", "ours"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ")[0].strip("| ") for line in done.stdout.splitlines()]
    assert {"new, requests/s", "requests without a key / bare", "new keys / bare"} <= {*rows}
