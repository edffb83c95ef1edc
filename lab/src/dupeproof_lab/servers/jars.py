"""The jars of Apache Kafka, fetched once by Maven, which knows from where, into the user's cache."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .install import SERVERS, ServerMissing, variable

KAFKA = SERVERS["kafka"].release
FETCH_SECONDS = 600

_PROJECT = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dupeproof</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA}</version>
    </dependency>
  </dependencies>
</project>
"""


def folder() -> Path:
    """Where they are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dupeproof" / f"kafka-{KAFKA}"


def ensure(mvn: Path) -> Path:
    """The folder with the jars, which are fetched first when they are missing; by one process at a time."""
    there = folder()
    if there.exists():
        return there
    there.parent.mkdir(parents=True, exist_ok=True)
    with there.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not there.exists():  # or somebody fetched them while we waited
            _fetch(mvn, there)
    return there


def _fetch(mvn: Path, there: Path) -> None:
    """Into a folder beside it, which gets the name when it is complete."""
    with tempfile.TemporaryDirectory(dir=there.parent) as scratch:
        (Path(scratch) / "pom.xml").write_text(_PROJECT)
        command = [
            str(mvn),
            "--batch-mode",
            "--quiet",
            "dependency:copy-dependencies",
            "-DoutputDirectory=jars",
        ]
        try:
            done = subprocess.run(  # noqa: S603
                command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise _missing(f"Maven did not finish in {FETCH_SECONDS} s") from None
        if done.returncode != 0:
            raise _missing(next(iter(done.stdout.strip().splitlines()), "Maven failed"))
        shutil.move(Path(scratch) / "jars", there)


def _missing(reason: str) -> ServerMissing:
    return ServerMissing(
        f"the jars of Kafka {KAFKA} are missing ({reason}). Let Maven reach its repository, "
        f"or set {variable('kafka')} to the address of a broker you have."
    )
