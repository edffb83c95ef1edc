"""How fast this tree is beside an earlier commit, measured in one run: `make compare COMMIT=6c0d3ae`.

Both are asked through names that users type, each in a process of its own, in turns and on the same servers, so that what
the machine does meanwhile strikes both. Printed are the medians of the ratios, this tree / the commit, with the quarter
of them below and above. One core for the process and the servers: what is compared is work, not waiting for a wake-up.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

ROOT = Path(__file__).resolve().parent.parent
STORES = ("memory", "sqlite", "redis", "postgres")
CALLS = 400
TASKS = 64


def measure(url: str) -> dict[str, float]:
    """Operations a second, by what is done. Runs with either tree first on the path."""
    from dupeproof import AsyncOnce, Once  # noqa: PLC0415 - whichever of the two it is

    run = uuid4().hex
    keys = [f"{run}-{number}" for number in range(CALLS)]

    def rate(work: Callable[[], object], operations: int) -> float:
        begin = time.perf_counter()
        work()
        return operations / (time.perf_counter() - begin)

    with Once(url, namespace="compare") as once:
        once.run(f"{run}-warm", int)
        once.seen(f"{run}-warm")
        found = {
            "seen, new": rate(lambda: [once.seen(key) for key in keys], CALLS),
            "seen, known": rate(lambda: [once.seen(key) for key in keys], CALLS),
            "fresh, 1,000": rate(lambda: once.fresh([f"{run}-b-{n}" for n in range(5_000)]), 5_000),
            "run, new": rate(lambda: [once.run(key, int) for key in keys], CALLS),
            "run, replay": rate(lambda: [once.run(key, int) for key in keys], CALLS),
        }

    async def together() -> None:
        async with AsyncOnce(url, namespace="compare") as once:

            async def work() -> int:
                return 1

            async def one(task: int) -> None:
                for number in range(20):
                    await once.run(f"{run}-{task}-{number}", work)

            await once.run(f"{run}-warm-too", work)
            for turn in ("new", "replay"):
                begin = time.perf_counter()
                await asyncio.gather(*(one(task) for task in range(TASKS)))
                found[f"run, {TASKS} tasks, {turn}"] = TASKS * 20 / (time.perf_counter() - begin)

    asyncio.run(together())
    return found


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dupeproof-compare-") as folder:
        place = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(place), commit], check=True)
        try:
            yield place / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


def measured(source: Path, url: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--measure", url],
        env={**os.environ, "PYTHONPATH": str(source)},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(commit: str, stores: list[str], rounds: int) -> None:
    from dupeproof_lab.servers import Postgres, Redis  # noqa: PLC0415 - not in the processes that measure

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with ExitStack() as stack:
        before = stack.enter_context(tree_of(commit))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = {"redis": Redis, "postgres": Postgres}
        for store in stores:
            # A name for memory, so that both tasks and calls of one process share it, as they share a server.
            url = {"memory": "memory://compare", "sqlite": f"sqlite:///{folder}/dedup.db"}.get(store)
            sources = {"now": ROOT / "src", "before": before}
            ratios: dict[str, list[float]] = {}
            with ExitStack() as running:
                url = url or running.enter_context(servers[store]()).url
                for turn in range(rounds):
                    order = sorted(sources, reverse=bool(turn % 2))
                    rates = {name: measured(sources[name], url) for name in order}
                    for what, rate in rates["now"].items():
                        ratios.setdefault(what, []).append(rate / rates["before"][what])
            for what, each in ratios.items():
                low, middle, high = statistics.quantiles(each, n=4)
                print(f"{store:<10}{what:<24}{middle:5.2f}   {low:.2f}-{high:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", nargs="?", help="what to compare with")
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--measure", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
    elif options.commit is None:
        parser.error("name a commit to compare with: make compare COMMIT=…")
    else:
        compare(options.commit, options.stores, options.rounds)


if __name__ == "__main__":
    main()
