"""Run the project on a machine that has nothing: a minimal Debian in a temporary folder.

    make fresh                              README's two commands: make demo, make test
    make fresh-quick                        make demo, the first start of every server, the tests that need a tool
    make fresh ARGS="'make lint types'"     whatever else should work from a fresh clone

The system has what README says a fresh machine needs, and how this machine reaches the network: its settings of apt,
pip and Maven, its proxies and certificates. The project is cloned as committed; changes that are not are left out.

Nothing is written outside the folder, but for mmdebstrap, which is installed where it is missing. Mounts and processes
are in namespaces of their own: when this program ends, however it does, they are gone, and only then is the folder
removed. Needs root.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

PROJECT = Path(__file__).resolve().parent.parent
CLONE = "/root/dupeproof"

ALL = ("make demo", "make test")
QUICK = (
    "make demo",
    "make first-starts",
    "make test ARGS='-m tool'",
)

SETTINGS = (
    "/etc/hosts",
    "/etc/pip.conf",
    "~/.config/pip/pip.conf",
    "~/.pip/pip.conf",
    "~/.m2/settings.xml",
    "~/.m2/settings-security.xml",
    "/usr/local/share/ca-certificates",
)
APT = ("auth.conf", "auth.conf.d", "keyrings", "preferences", "preferences.d", "trusted.gpg", "trusted.gpg.d")
VARIABLES = re.compile(r"(?i:(https?|ftp|all|no)_proxy)|(PIP|MAVEN)_\w+|SSL_CERT_(FILE|DIR)|\w+_CA_BUNDLE")
CACHES = {"PIP_CACHE_DIR"}  # what was downloaded before is not there on a fresh machine

NODES = ("full", "null", "random", "tty", "urandom", "zero")
NAMESPACES = ("unshare", "--mount", "--pid", "--ipc", "--fork")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", help="run these instead, each in a shell, in the clone")
    parser.add_argument("--quick", action="store_true", help="what CI runs")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    commands = options.commands or (QUICK if options.quick else ALL)
    return outside(commands) if options.inside is None else inside(options.inside, commands)


def outside(commands: Sequence[str]) -> int:
    """Start ourselves again in new namespaces; remove the folder when they are gone."""
    if os.geteuid() != 0:
        sys.exit("make fresh needs root, to install a system into a folder: sudo make fresh")
    listen(leave)
    install_mmdebstrap()
    if git("status", "--porcelain", "--untracked-files=no"):
        print("fresh: what is not committed is left out", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="dupeproof-fresh-"))
    folder.chmod(0o755)  # apt gives its own user the downloading
    command: list[str | Path] = [*NAMESPACES, sys.executable, __file__, "--inside", folder, "--", *commands]
    try:
        git("bundle", "create", "--quiet", str(folder / "project.bundle"), "HEAD")
        # When this is left early, by a signal, the pipe is closed: that ends them over there, and is waited for.
        with subprocess.Popen(command, stdin=subprocess.PIPE) as there:
            return there.wait()
    finally:
        listen(signal.SIG_IGN)
        remove(folder)


def listen(handler: Callable[[int, object], NoReturn] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def leave(number: int, _: object) -> NoReturn:
    listen(signal.SIG_IGN)  # once is enough: what follows is the tidying up
    sys.exit(128 + number)


def install_mmdebstrap() -> None:
    """As the tests install what they need."""
    program = PROJECT / "lab/src/dupeproof_lab/servers/install.py"
    command: list[str | Path] = [sys.executable, "-I", "-S", program, "mmdebstrap"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"make fresh needs mmdebstrap: {done.stdout.strip()}")


def remove(folder: Path) -> None:
    """Never through a mount: there is none in our namespace, unless somebody else made it."""
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    if any(Path(place).is_relative_to(folder) for place in mounted):
        sys.exit(f"something is mounted under {folder}: unmount and remove it by hand")
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True)


def git(*arguments: str) -> str:
    """As root in a clone of somebody else's, too."""
    command: list[str | Path] = ["git", "-c", "safe.directory=*", "-C", PROJECT, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def inside(folder: Path, commands: Sequence[str]) -> int:
    """In the new namespaces, as their process 1: when it ends, for whatever reason, all the others are killed."""
    threading.Thread(target=leash, daemon=True).start()
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))
    root = folder / "root"
    machine = {name: value for name, value in os.environ.items() if VARIABLES.fullmatch(name)}
    for name in CACHES & machine.keys():
        del machine[name]
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
        "REQUIRE_SERVERS": "all",  # a fresh machine can have them all
        **machine,
    }
    timings: list[str] = []

    def step(name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> bool:
        print(f"== fresh: {name}", flush=True)
        begin = time.monotonic()
        code = run(command, env)
        timings.append(f"{time.monotonic() - begin:6.0f} s  {name}{f': exit {code}' if code else ''}")
        return code == 0

    done = step("a minimal Debian", bootstrap(folder, root))
    if done:
        mount(root)
        take_along(root, machine)
        script = (
            "update-ca-certificates >/dev/null 2>&1 && git clone --quiet --config advice.detachedHead=false /project.bundle "
            + CLONE
        )
        shutil.move(folder / "project.bundle", root)
        done = step("a clone", ["chroot", root, "sh", "-c", script], environment)
    if done:
        # All of them: one that fails says nothing about the next.
        for command in commands:
            done &= step(command, ["chroot", root, "sh", "-c", f"cd {CLONE} && {command}"], environment)
    print("\n".join(["== fresh", *timings]), flush=True)
    return 0 if done else 1


def leash() -> None:
    """Whoever started us holds the other end of the pipe. When it is gone, by SIGKILL too, so are we."""
    os.read(0, 1)
    os._exit(1)


def run(command: Sequence[str | Path], env: Mapping[str, str] | None) -> int:
    """And bury the orphans of others meanwhile, as process 1 has to."""
    child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode


def bootstrap(folder: Path, root: Path) -> list[str | Path]:
    """From where this machine has its packages, and what README says is needed, no more."""
    apt = Path("/etc/apt")
    sources = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    reach = subprocess.run(["apt-config", "dump", "Acquire"], check=True, capture_output=True, text=True)
    (folder / "apt.conf").write_text(reach.stdout)
    return [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=apt",
        f"--include={','.join(needed())}",
        f"--aptopt={folder / 'apt.conf'}",
        "--dpkgopt=force-unsafe-io",  # nobody will miss it after a power cut
        "",
        root,
        *(file for file in sources if file.is_file() and file.suffix in {".list", ".sources"}),
    ]


def needed() -> list[str]:
    """What README tells the owner of a fresh machine to install."""
    found = re.search(r"`apt-get install ([^`]+)`", (PROJECT / "README.md").read_text())
    if found is None:
        sys.exit("README does not say what a fresh machine needs: `apt-get install …`")
    return found[1].split()


def mount(root: Path) -> None:
    """What a kernel gives every machine, seen by the processes of this namespace alone."""

    def do(*arguments: str | Path) -> None:
        subprocess.run(["mount", *arguments], check=True)

    do("--bind", root, root)  # the root of a machine is a mount, which can be made private
    do("-t", "proc", "proc", root / "proc")
    do("-t", "sysfs", "-o", "ro", "sysfs", root / "sys")
    dev = root / "dev"
    do("-t", "tmpfs", "-o", "mode=755", "tmpfs", dev)
    for name in NODES:
        (dev / name).touch()
        do("--bind", Path("/dev") / name, dev / name)
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (dev / name).symlink_to(target)
    (dev / "pts").mkdir()
    do("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620,gid=5", "devpts", dev / "pts")
    (dev / "ptmx").symlink_to("pts/ptmx")
    (dev / "shm").mkdir()
    do("-t", "tmpfs", "-o", "mode=1777", "tmpfs", dev / "shm")


def take_along(root: Path, variables: Mapping[str, str]) -> None:
    """The machine's settings, and the files and folders that they name."""
    for setting in SETTINGS:
        copy(Path(setting).expanduser(), root / setting.replace("~", "/root").lstrip("/"))
    for name in APT:
        copy(Path("/etc/apt") / name, root / "etc/apt" / name)
    apt = root / "etc/apt"
    for source in (*apt.glob("sources.list"), *apt.glob("sources.list.d/*")):
        for key in re.findall(r"(?i)signed-by\s*[:=]\s*(/[^\s\]]+)", source.read_text()):
            copy(Path(key), root / key.lstrip("/"))
    for word in " ".join(variables.values()).split():
        there = root / word.lstrip("/")
        if word.startswith("/") and not there.exists():  # or it is the new system's own
            copy(Path(word), there)


def copy(here: Path, there: Path) -> None:
    if here.is_dir():
        shutil.copytree(here, there, dirs_exist_ok=True)
    elif here.exists():
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(here, there)


if __name__ == "__main__":
    sys.exit(main())
