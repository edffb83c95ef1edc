"""Write constraints.txt: the versions pip chooses today for everything the development set-up needs.

    make constraints

Run with the oldest Python we support: what it can use, the newer ones can too; the newest versions of some
packages have already left it behind. They are chosen for its first release: distributions stay with an early one.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEADER = """\
# The versions that make, and so CI, installs. Refresh with: make constraints PYTHON=python3.11
"""


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    oldest = project["project"]["requires-python"].removeprefix(">=")
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != oldest:
        sys.exit(
            f"this is Python {running}; the pins are chosen with the oldest we support: PYTHON=python{oldest}"
        )
    # pip itself and what builds the package are part of the set-up.
    wanted = [
        "--group",
        "dev",
        "--group",
        "docs",
        "--group",
        "peers",
        ".",
        "./lab",
        "pip",
        "async-timeout",  # of redis, before Python 3.11.3: pip looks at the Python that runs it
        *project["build-system"]["requires"],
    ]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--report",
        "-",
        f"--python-version={oldest}.0",
        "--only-binary=:all:",
        "--target=nowhere",
    ]
    answer = subprocess.run([*command, *wanted], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = {item["metadata"]["name"]: item["metadata"]["version"] for item in json.loads(answer)["install"]}
    for ours in ("dupeproof", "dupeproof-lab"):
        del found[ours]
    pins = "".join(f"{name}=={found[name]}\n" for name in sorted(found, key=str.lower))
    (ROOT / "constraints.txt").write_text(HEADER + pins)
    print(f"constraints.txt: {len(found)} versions")


if __name__ == "__main__":
    main()
