"""What the figures were measured on: machine, versions, disk, pinning."""

import os
import platform
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter

from msgspec import Struct

from dupeproof import __version__
from dupeproof_lab.bench.benchmarks.drivers import INSTALL, PEERS

_SYNCS = 50


class Machine(Struct, frozen=True, kw_only=True):
    system: str
    processor: str
    cores: int
    memory_bytes: int
    fdatasync_seconds: float
    """The floor of every durable commit."""
    python: str
    dupeproof: str
    packages: dict[str, str]
    peers: dict[str, str | None]
    """Version, or None where one is not installed."""


def look() -> Machine:
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        fdatasync_seconds=_fdatasync(),
        python=platform.python_version(),
        dupeproof=__version__,
        packages={name: found for name in ("redis", "hiredis", "psycopg") if (found := _version(name))},
        peers={name: _version(name) for name in PEERS.values()},
    )


def missing(machine: Machine) -> list[str]:
    """How to get the peers that are not here."""
    packages = {title: INSTALL[module] for module, title in PEERS.items()}
    return [
        f'{name} is not installed and so not compared; run: pip install "{packages[name]}"'
        for name, found in machine.peers.items()
        if found is None
    ]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _fdatasync() -> float:
    with tempfile.TemporaryFile() as file:
        took = []
        for _ in range(_SYNCS):
            os.write(file.fileno(), b"x" * 4_096)
            began = perf_counter()
            os.fdatasync(file.fileno())
            took.append(perf_counter() - began)
    return median(took)
