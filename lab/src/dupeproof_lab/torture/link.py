"""What joins a process under torture to the coordinator that started it: a line of JSON each, over the pipes it was started with."""

import contextlib
import json
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

_ORDER = b'{"order"'
"""So begins what is for the process itself; all else is for its handler or its publisher."""


class Link:
    """The process's end. It takes the standard streams for itself: what a handler prints goes to the log.

    When the coordinator is gone the process ends at once, as one that is killed does, which is what it is made for.
    """

    def __init__(self) -> None:
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._saying = threading.Lock()
        self._obey: Callable[[dict[str, Any]], None] | None = None
        self._in, self._out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def start(self, obey: Callable[[dict[str, Any]], None]) -> None:
        """Listen from now on; `obey` is called with every order, in the thread that listens."""
        self._obey = obey
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, word: dict[str, Any]) -> None:
        with self._saying:
            self._out.write(json.dumps(word).encode() + b"\n")
            self._out.flush()

    def heard(self, most: int, seconds: float) -> list[dict[str, Any]]:
        """What has come, at most so many, waiting at most so long for the first."""
        if most == 0:
            time.sleep(seconds)
        lines: list[bytes] = []
        with contextlib.suppress(queue.Empty):
            while len(lines) < most:
                lines.append(self._heard.get(timeout=0.0 if lines else seconds))
        return [json.loads(line) for line in lines]

    def _listen(self) -> None:
        assert self._obey is not None
        for line in self._in:
            if line.startswith(_ORDER):
                self._obey(json.loads(line))
            else:
                self._heard.put(line)
        os._exit(1)
