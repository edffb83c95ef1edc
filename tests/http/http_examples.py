"""Starts one of the examples, as its page says."""

import contextlib
import signal
import sys
from pathlib import Path

import httpx

from dupeproof_lab.servers import process
from dupeproof_lab.servers.base import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"


@contextlib.contextmanager
def started(script, folder, **env):
    """The address of the example while it runs, with its data in the folder."""
    port = process.free_port()
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        server = process.spawn(
            [sys.executable, EXAMPLES / script],
            cwd=folder,
            log=log,
            env={"PORT": str(port), **env},
            end_signal=signal.SIGKILL,
        )

    def answers():
        assert server.poll() is None, (folder / "log").read_text()
        try:
            return httpx.get(url).status_code < 500
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, what=script)
        yield url
    finally:
        server.kill()
        process.forget(server)
