"""Find the programs of servers and tools, and install them from the distribution's packages when they are missing.

Also a program: `python install.py redis postgres`, which is how it calls itself through sudo. So: standard
library only, and no imports from the package.
"""

import contextlib
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

LOCK = Path("/var/lock/dupeproof-install.lock")
POLICY = Path("/usr/sbin/policy-rc.d")
INSTALL_SECONDS = 900


class ServerMissing(RuntimeError):
    """The programs of a server or a tool are not here and cannot be installed; the text says what would help."""


@dataclass(frozen=True)
class Wanted:
    """What a server or a tool needs of the machine."""

    packages: tuple[str, ...]  # of Debian and its descendants
    binaries: tuple[str, ...]  # the first is asked for its version; one with `.so` is a library
    folders: tuple[str, ...] = ()  # where to look before PATH: patterns, from the root
    version: tuple[str, ...] = ("--version",)  # how the first binary is asked; nothing: by where it is
    release: str = ""  # what is started, where the packages only help to fetch and run it
    backports: bool = False  # look there too: the release may be older than the server


# Debian keeps several versions side by side and puts none of their server programs on PATH.
_POSTGRES = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
_REDIS = Wanted(packages=("redis-server",), binaries=("redis-server",))
SERVERS: dict[str, Wanted] = {
    "redis": _REDIS,
    "redis_cluster": _REDIS,
    "redis_sentinel": _REDIS,
    "valkey": Wanted(packages=("valkey-server",), binaries=("valkey-server",), backports=True),
    "postgres": Wanted(
        packages=("postgresql",),
        binaries=("postgres", "initdb", "pg_isready", "psql"),
        folders=_POSTGRES,
    ),
    "pgbouncer": Wanted(packages=("pgbouncer",), binaries=("pgbouncer",)),
    "mariadb": Wanted(packages=("mariadb-server",), binaries=("mariadbd", "mariadb-install-db", "mariadb")),
    "rabbitmq": Wanted(
        packages=("rabbitmq-server",),
        binaries=("rabbitmq-server", "epmd"),
        # What Debian puts on PATH is for its own service only. It knows no --version, but the folder has it.
        folders=("usr/lib/rabbitmq/bin",),
        version=(),
    ),
    "nats": Wanted(packages=("nats-server",), binaries=("nats-server",)),
    "kafka": Wanted(packages=("default-jre-headless", "maven"), binaries=("java", "mvn"), release="4.3.1"),
}
# What a test asks for beside servers.
TOOLS: dict[str, Wanted] = {
    "chromium": Wanted(packages=("chromium",), binaries=("chromium",)),
    "curl": Wanted(packages=("curl",), binaries=("curl",)),
    "faketime": Wanted(
        packages=("faketime",),
        binaries=("faketime", "libfaketime.so.1"),
        folders=("usr/lib/*/faketime", "usr/lib64/faketime"),
    ),
    "mmdebstrap": Wanted(packages=("mmdebstrap", "mount"), binaries=("mmdebstrap", "mount")),
    "promtool": Wanted(packages=("prometheus",), binaries=("promtool", "prometheus")),
    "wrk": Wanted(packages=("wrk",), binaries=("wrk",)),
}
# What we use ourselves: to speak to a server, also to one that somebody else runs.
HELPERS: dict[str, Wanted] = {
    "postgres_client": Wanted(packages=("postgresql-client",), binaries=("psql",), folders=_POSTGRES),
    "mariadb_client": Wanted(packages=("mariadb-client",), binaries=("mariadb",)),
}
PROGRAMS = SERVERS | TOOLS | HELPERS


def variable(name: str) -> str:
    """The environment variable that points at a server one already has."""
    return f"{name.upper()}_URL"


def find(name: str, search: Sequence[str] | None = None) -> dict[str, Path] | None:
    """Where its programs are, None when one is missing. `search` replaces the usual folders."""
    wanted = PROGRAMS[name]
    if search is None:
        special = [str(folder) for pattern in wanted.folders for folder in Path("/").glob(pattern)]
        newest_first = sorted(special, key=_numbers, reverse=True)
        search = [*newest_first, *os.get_exec_path(), "/usr/local/sbin", "/usr/sbin"]
    path = os.pathsep.join(search)
    # An empty path would make `which` look in the usual places after all.
    found = {
        binary: shutil.which(binary, _mode(binary), path) if path else None for binary in wanted.binaries
    }
    places = {binary: Path(place) for binary, place in found.items() if place is not None}
    return places if len(places) == len(found) else None


def _mode(binary: str) -> int:
    """A library need not be executable."""
    return os.F_OK if ".so" in binary else os.X_OK


def _numbers(folder: str) -> list[int]:
    """So that version 9 comes before version 15."""
    return [int(part) for part in "".join(c if c.isdigit() else " " for c in folder).split()]


def version(name: str) -> str | None:
    """The version that would be started, None when it is not installed."""
    places = find(name)
    if places is None:
        return None
    wanted = PROGRAMS[name]
    if wanted.release:
        return wanted.release
    server = places[wanted.binaries[0]]
    text = str(server.resolve())
    if wanted.version:
        command = [str(server), *wanted.version]
        # Not checked: some call it an error to be asked for nothing else.
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
    found = re.search(r"\d+(\.\d+)+", text)
    return "?" if found is None else found[0]


def ensure(name: str, search: Sequence[str] | None = None) -> dict[str, Path]:
    """Its programs, installed first when they are missing. With a `search` of one's own: found there, or an error."""
    places = find(name, search)
    if places is not None:
        return places
    reason = "nothing is installed when the folders to search are given"
    if search is None:
        reason = _install_as_root(name)
        places = find(name)
        if places is not None:
            return places
    help_with = f"Install the package {' '.join(PROGRAMS[name].packages)}"
    if name in SERVERS:
        help_with += f", or set {variable(name)} to the address of a server you have"
    raise ServerMissing(f"{name} is missing ({reason}). {help_with}.")


def _install_as_root(name: str) -> str:
    """Try; the answer says what was in the way, if anything was."""
    if os.environ.get("INSTALL_SERVERS") != "yes":
        return "it is installed for you only with INSTALL_SERVERS=yes"
    if shutil.which("apt-get") is None:
        return "there is no apt-get here"
    if os.geteuid() == 0:
        return install(name)
    if not _sudo_is_free():
        return "installing needs root, or sudo without a password"
    command = ["sudo", "-n", sys.executable, "-I", "-S", __file__, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or done.stderr.strip()[-500:]


def _sudo_is_free() -> bool:
    sudo = shutil.which("sudo")
    if sudo is None:
        return False
    return subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0  # noqa: S603


def install(name: str, *, policy: Path = POLICY, lock: Path = LOCK) -> str:
    """Install its packages, one process at a time, without starting the distribution's own service."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if find(name) is not None:  # by whoever had the lock before
            return "installed meanwhile"
        with services_held_back(policy):
            return _install(PROGRAMS[name])


def _install(wanted: Wanted) -> str:
    """The package lists may be absent or too old; they are fetched only when it does not work without."""
    install_command = ("install", "--no-install-recommends", *wanted.packages)
    try:
        complaint = _apt(*install_command)
        if complaint:
            _apt("update")
            complaint = _apt(*install_command)
        if complaint and wanted.backports:
            with _backports() as sources:
                _apt(*sources, "update")
                complaint = _apt(*sources, *install_command)
    except subprocess.TimeoutExpired:
        return f"apt-get did not finish in {INSTALL_SECONDS} s"
    return f"apt-get: {complaint}" if complaint else "installed, yet not found"


def _apt(*arguments: str) -> str:
    """What it complained about last; nothing when it did what it was asked."""
    done = subprocess.run(  # noqa: S603
        ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-q", "-y", *arguments],  # noqa: S607
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode == 0:
        return ""
    return done.stderr.strip().rpartition("\n")[2] or f"exit {done.returncode}"


@contextlib.contextmanager
def _backports() -> Iterator[Sequence[str]]:
    """Options by which apt-get looks there too, this once: the machine's own sources stay as they are."""
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    known = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split("\n")
    mirrors = sorted({line.split()[0] for line in known if line.endswith(f" {release} main")})
    usual = Path("/etc/apt/sources.list")
    with tempfile.NamedTemporaryFile("w", suffix=".list") as file:
        file.write(usual.read_text() if usual.exists() else "")
        file.writelines(f"\ndeb {mirror} {release}-backports main" for mirror in mirrors)
        file.write("\n")
        file.flush()
        yield ("-o", f"Dir::Etc::SourceList={file.name}")


@contextlib.contextmanager
def services_held_back(policy: Path = POLICY) -> Iterator[None]:
    """Debian starts a service when it is installed, unless this file says no. One that is there already is respected."""
    try:
        with policy.open("x") as file:
            file.write("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
    except FileExistsError:
        yield
        return
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(install(each) if find(each) is None else "already there")  # noqa: T201
    sys.exit(any(find(each) is None for each in sys.argv[1:]))
