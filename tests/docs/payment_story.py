"""The page about payments under torture: its own code in processes that are killed, beside a provider that cannot be relied on.

    make payment-torture                         # 2,000 orders and 100 kills, with a lookup and without, on PostgreSQL and Redis
    make payment-torture ARGS='--orders 200 --kills 10 --store redis --without-lookup'

What the page writes as minutes are seconds here. The process that asks is killed while the provider is at its payment, before
and after it has charged, and at other moments.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from docs_run_page import BLOCK
from payment_provider import MOODS, Provider

from dupeproof import Once
from dupeproof.brokers.rabbitmq import RabbitPublisher
from dupeproof.outbox import Message
from dupeproof_lab.servers import Postgres, RabbitMQ, Redis

PAGE = Path(__file__).parents[2] / "docs/howto/payment-api.md"
TIMEOUT, LATE, LATEST = 0.5, 1.0, 2.0
FASTER = {
    "timedelta(minutes=10)": f"timedelta(seconds={LATEST})",
    "timeout=5)": f'timeout={TIMEOUT}, headers={{"X-Worker": str(os.getpid())}})',
    'lease="30s"': 'lease="2s"',
    "        max_attempts=20,\n": '        max_attempts=None,\n        backoff="200ms",\n        max_backoff="1s",\n',
}
WITHOUT_LOOKUP = {"    settle=lookup,\n": "", "max_attempts=None": "max_attempts=5"}


def program(queue: str, *, lookup: bool = True) -> str:
    """`payments.py` as the page has it, with shorter times."""
    [code] = [shown for shown, _ in BLOCK.findall(PAGE.read_text()) if "def handle" in shown]
    changes = FASTER | {'queue="orders"': f'queue="{queue}"'} | ({} if lookup else WITHOUT_LOOKUP)
    for old, new in changes.items():
        assert code.count(old) == 1, f"{PAGE.name} has not {old!r} once"
        code = code.replace(old, new)
    return code


class Shop:
    """The page's program in processes, with its queue, its database and the provider."""

    def __init__(
        self, folder: Path, urls: dict[str, str], provider: Provider, *, lookup: bool = True
    ) -> None:
        self.queue = f"orders-{uuid4().hex[:8]}"
        self.urls = urls
        self.provider = provider
        self._file = folder / "payments.py"
        self._file.write_text(program(self.queue, lookup=lookup))
        self._environment = {
            **os.environ,
            "DATABASE_URL": urls["database"],
            "STORE_URL": urls["store"],
            "BROKER_URL": urls["broker"],
            "PROVIDER_URL": provider.url,
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.log = (folder / "workers.log").open("ab")

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, str(self._file)],
            env=self._environment | environment,
            stdout=self.log,
            stderr=self.log,
        )
        self.processes.append(process)
        return process

    def send(self, orders: range) -> None:
        messages = [
            Message(
                id=f"m-{number}",
                topic=self.queue,
                key=None,
                headers={},
                payload=json.dumps({"id": f"o-{number}", "amount": 5}).encode(),
            )
            for number in orders
        ]
        with RabbitPublisher(self.urls["broker"]) as publisher:
            deadline = time.monotonic() + 60
            while messages and time.monotonic() < deadline:  # until a worker has made the queue
                answers = publisher.publish(messages)
                messages = [
                    each for each, trouble in zip(messages, answers, strict=True) if trouble is not None
                ]
                time.sleep(0.1 if messages else 0.0)
        assert not messages, "the queue does not take them"

    def query(self, text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.urls["database"]) as connection:
            return connection.execute(text).fetchall()

    def rows(self) -> Counter[str]:
        """How many orders are paid, and how many refused."""
        try:
            return Counter(dict(self.query("SELECT status, count(*) FROM payments GROUP BY 1")))
        except psycopg.errors.UndefinedTable:  # the first worker has not made it yet
            return Counter()

    def held(self) -> dict[str, str]:
        """The error of each held order."""
        with Once(self.urls["store"], namespace="payments") as once:
            return {
                (each.key or each.digest).rpartition(":")[2]: each.error or ""
                for each in once.entries("held", limit=None)
            }

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()


class Killer:
    """Kills workers: at the provider's, by its word, and between."""

    def __init__(self, shop: Shop, workers: int, kills: int, seed: int) -> None:
        self._shop = shop
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.left = kills
        self.struck: Counter[str] = Counter()
        self._due = 0.0
        self._aimed = True
        """Whether the next one strikes at the provider."""
        self._workers = [shop.start() for _ in range(workers)]

    def at_the_provider(self, moment: str, _: str, worker: int) -> None:
        """Called by the provider."""
        with self._lock:
            if self._aimed and self._random.random() < 0.5:
                self._kill(moment, worker)

    def between(self) -> None:
        with self._lock:
            if not self._aimed or time.monotonic() > self._due + 1.0:
                self._kill("at any moment", self._random.choice(self._workers).pid)

    def _kill(self, moment: str, worker: int) -> None:
        if not self.left or time.monotonic() < self._due:
            return
        for place, process in enumerate(self._workers):
            if process.pid == worker and process.poll() is None:
                process.kill()
                process.wait()
                self.left -= 1
                self.struck[moment] += 1
                self._workers[place] = self._shop.start()
                self._due = time.monotonic() + 0.4
                self._aimed = self._random.random() < 0.7

    def revive(self) -> None:
        """None ends by itself; one that does would be a finding, so it is counted."""
        with self._lock:
            for place, process in enumerate(self._workers):
                if process.poll() is not None:
                    self.struck[f"ended by itself with {process.returncode}"] += 1
                    self._workers[place] = self._shop.start()


def torture(
    shop: Shop,
    *,
    orders: int,
    kills: int,
    lookup: bool,
    workers: int = 3,
    seed: int = 1,
    patience: float = 900.0,
) -> dict[str, Any]:
    began = time.monotonic()
    killer = Killer(shop, workers, kills, seed)
    shop.provider.strike = killer.at_the_provider
    shop.send(range(orders))
    deadline = began + patience
    settled = 0
    while time.monotonic() < deadline:
        killer.between()
        killer.revive()
        settled = sum(shop.rows().values())
        if settled + (0 if lookup else len(shop.held())) >= orders and not killer.left:
            break
        time.sleep(0.2)
    time.sleep(2 * LATE)  # what the provider is still at
    shop.stop()
    provider, rows, held = shop.provider, shop.rows(), shop.held()
    [(announced,)] = shop.query("SELECT count(DISTINCT aggregateid) FROM dupeproof_outbox")
    everything = {f"o-{number}" for number in range(orders)}
    known = {order for (order,) in shop.query("SELECT order_id FROM payments")}
    return {
        "orders": orders,
        "seconds": round(time.monotonic() - began, 1),
        "paid": rows["paid"],
        "refused": rows["refused"],
        "announced": announced,
        "charged twice": sorted(order for order, times in provider.charges.items() if times > 1),
        "paid without a charge": sorted(
            order
            for (order,) in shop.query("SELECT order_id FROM payments WHERE status = 'paid'")
            if not provider.charges[order]
        ),
        "two invoices": sum(times > 1 for times in provider.invoices.values()),
        "held": len(held),
        "held, as the provider has charged": len(held.keys() & provider.charges.keys()),
        "lost": sorted(everything - known - held.keys()),
        "kills": dict(killer.struck),
        "met at the provider": dict(provider.met),
    }


def faults(found: dict[str, Any], *, lookup: bool) -> list[str]:
    """What must not be. Without a lookup, what is in doubt is held; with one, nothing is in the end."""
    wrong = [
        name for name in ("charged twice", "paid without a charge", "two invoices", "lost") if found[name]
    ]
    if lookup and found["held"]:
        wrong.append("held")
    if found["announced"] != found["paid"] + found["refused"]:
        wrong.append("announced")
    return wrong + [name for name in found["kills"] if name.startswith("ended by itself")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--orders", type=int, default=2_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["postgres", "redis"], action="append")
    parser.add_argument("--without-lookup", action="store_true", help="only that; both, unless given")
    options = parser.parse_args()
    failed = False
    for store in options.store or ("postgres", "redis"):
        for lookup in (False,) if options.without_lookup else (True, False):
            with ExitStack() as stack:
                database, broker = stack.enter_context(Postgres()), stack.enter_context(RabbitMQ())
                place = database.url if store == "postgres" else stack.enter_context(Redis()).url
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                provider = Provider(options.seed, LATE, MOODS).start()
                stack.callback(provider.stop)
                urls = {"database": database.url, "store": place, "broker": broker.url}
                shop = Shop(folder, urls, provider, lookup=lookup)
                stack.callback(shop.stop)
                found = torture(
                    shop, orders=options.orders, kills=options.kills, lookup=lookup, seed=options.seed
                )
                wrong = faults(found, lookup=lookup)
                print(json.dumps({"store": store, "lookup": lookup, **found, "wrong": wrong}), flush=True)
                if wrong:
                    failed = True
                    print((folder / "workers.log").read_text()[-3_000:], file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
