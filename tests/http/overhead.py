"""How much of an app's throughput the middleware costs, beside the bare app and another library, in one run.

    make overhead

One uvicorn process each (httptools), 32 connections, Redis; contenders take turns within each round, each in turn the first, and only
ratios within a round count. The server has a core to itself; Redis and wrk have another, where there are two. The processor time
of the server per request is told too: it is what a busy machine distorts least.
"""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import httpx

from dupeproof_lab.servers import Redis, ensure, process
from dupeproof_lab.servers.base import wait_until

HERE = Path(__file__).parent
CONTENDERS = ("bare", "ours", "idemkit")
MODES = ("none", "new", "replay")
REPLAYED = ("idempotent-replayed", "idempotency-replayed")
GOALS = [
    # what, ours in, beside whom, how many times at least
    ("requests without a key", "none", "bare", 0.9),
    ("new keys", "new", "idemkit", 2.5),
    ("new keys", "new", "bare", 0.4),
    ("replays", "replay", "idemkit", 3.0),
]


def start(contender: str, store: str, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    port = process.free_port()
    command = [
        sys.executable, "-m", "uvicorn", "overhead_app:app", "--port", str(port), "--http", "httptools", "--loop", "uvloop",
        "--log-level", "error", "--no-access-log", "--app-dir", str(HERE),
    ]  # fmt: skip
    with (folder / contender).open("wb") as log:
        server = process.spawn(
            command,
            cwd=folder,
            log=log,
            env={"OVERHEAD": contender, "STORE": store},
            end_signal=signal.SIGKILL,
        )
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: answers(url), what=f"{contender} to answer")
    return server, url


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 404
    except httpx.TransportError as exc:
        raise ConnectionError from exc


def prove(url: str, contender: str) -> None:
    """That it deduplicates, before it is timed."""
    body = {"name": "o-1", "amount": 1}
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first, again = [httpx.post(f"{url}/orders", json=body, headers=key) for _ in range(2)]
    assert first.status_code == again.status_code == 201
    marks = [value for name, value in again.headers.items() if name in REPLAYED]
    assert marks == ([] if contender == "bare" else ["true"]), again.headers


def cpu_seconds(pid: int) -> float:
    """Of the process, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(server: subprocess.Popen[bytes], url: str, mode: str, seconds: int) -> tuple[float, float]:
    """Requests a second, and microseconds of the server's processor time for each."""
    begin = cpu_seconds(server.pid)
    command = [
        str(ensure("wrk")["wrk"]), "-t1", "-c32", f"-d{seconds}s", "-s", str(HERE / "overhead.lua"), url, "--", mode, uuid.uuid4().hex,
    ]  # fmt: skip
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in text, text
    assert "Socket errors" not in text, text
    [rate] = re.findall(r"Requests/sec:\s+([\d.]+)", text)
    [count] = re.findall(r"(\d+) requests in", text)
    used = max(
        cpu_seconds(server.pid) - begin, 1 / os.sysconf("SC_CLK_TCK")
    )  # no less than can be told from nothing
    return float(rate), used / int(count) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--check", action="store_true", help="exit 1 if a goal is missed")
    options = parser.parse_args()
    contenders: list[str] = list(options.contenders)
    ensure("wrk")  # before anything is started, and not while it is timed
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    rates: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, Redis() as redis:
        servers = {name: start(name, redis.url, Path(folder)) for name in contenders}
        for name, (server, url) in servers.items():
            os.sched_setaffinity(server.pid, {cores[0]})
            prove(url, name)
            for mode in MODES:
                measure(server, url, mode, 1)
        for turn in range(options.rounds):
            first = turn % len(contenders)
            for mode in MODES:
                for name in contenders[first:] + contenders[:first]:
                    measured = measure(*servers[name], mode, options.seconds)
                    rates.setdefault((mode, name), []).append(measured)
        for server, _ in servers.values():
            os.killpg(server.pid, signal.SIGKILL)
            process.forget(server)
    return report(rates, contenders, check=options.check)


def report(
    rates: dict[tuple[str, str], list[tuple[float, float]]], contenders: list[str], *, check: bool
) -> int:
    print("| median | " + " | ".join(contenders) + " |\n|---" + "|---" * len(contenders) + "|")
    for column, unit in enumerate(("requests/s", "µs of the server a request")):
        for mode in MODES:
            medians = (statistics.median(each[column] for each in rates[mode, name]) for name in contenders)
            print(f"| {mode}, {unit} | " + " | ".join(f"{median:,.0f}" for median in medians) + " |")
    print("\n| goal | target | requests/s | spread | processor time | |\n|---|---|---|---|---|---|")
    missed = 0
    for what, mode, beside, target in GOALS:
        if not {"ours", beside} <= {*contenders}:
            continue
        rounds = list(zip(rates[mode, "ours"], rates[mode, beside], strict=True))
        faster = [ours[0] / theirs[0] for ours, theirs in rounds]
        cheaper = statistics.median(theirs[1] / ours[1] for ours, theirs in rounds)
        median = statistics.median(faster)
        missed += median < target
        verdict = "met" if median >= target else "missed"
        spread = f"{min(faster):.2f}–{max(faster):.2f}"
        print(f"| {what} / {beside} | ≥ {target:g} × | {median:.2f} | {spread} | {cheaper:.2f} | {verdict} |")
    return 1 if check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
