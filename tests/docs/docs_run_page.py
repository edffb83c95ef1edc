"""Run the Python of one page, top to bottom, as a reader would type it: python docs_run_page.py PAGE ['{"old": "new"}'].

What stands in `<!-- run … -->` is run too, and not shown: what the page says would be there, and what must come out.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```|^<!-- run\n(.*?)^-->", re.MULTILINE | re.DOTALL)
PATIENCE = 60


def stop_when(condition: Callable[[], object]) -> None:
    """SIGTERM to this process as soon as the condition holds, as whoever runs a service would send it."""

    def watch() -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                print(f"waited {PATIENCE} s in vain", file=sys.stderr)
                os._exit(3)
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main(page: str, replacements: dict[str, str]) -> None:
    text = Path(page).read_text()
    names: dict[str, object] = {"__name__": "page", "stop_when": stop_when}
    for found in BLOCK.finditer(text):
        shown, hidden = found.groups()
        code = shown if hidden is None else hidden
        for old, new in replacements.items():
            code = code.replace(old, new)
        line = text.count("\n", 0, found.start()) + 1
        exec(compile("\n" * line + code, page, "exec"), names)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
