"""Kafka's own system test, with our consumers: `make kafka-scenario`.

Three brokers. Messages are copied from topic to topic by transformers, and from there consumed into PostgreSQL, one round with
each way to share partitions. Meanwhile processes are killed (SIGKILL) and brokers are bounced, by turns killed and restarted.
Of all messages 1 % fail at first, some always; some handlers are slow, one in a round is slower than a transaction and the group
allow. Messages have no ids, so that nothing but Kafka's transactions and the positions in the database keeps them from being doubled.

Nothing may be lost, doubled or out of order within its key, and no process may end by itself.
"""

import argparse
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

SHARING = {
    "range": {"partition.assignment.strategy": "range", "session.timeout.ms": 6_000},
    "roundrobin": {"partition.assignment.strategy": "roundrobin", "session.timeout.ms": 6_000},
    "cooperative-sticky": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 6_000,
    },
    "consumer": {"group.protocol": "consumer"},
}
BROKERS = {
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.session.timeout.ms": 5_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "auto.create.topics.enable": "false",
}
PARTITIONS, KEYS = 6, 60
TRANSACTION, POLL_MS = "8s", 8_000
FAILING, HOPELESS, SLOW = 100, 1_000, 1_000
"""One of so many."""
TABLE = "CREATE TABLE effects (seq bigserial PRIMARY KEY, round text, key text, number int)"


# The messages


def kind_of(number: int, count: int) -> str:
    if number == count // 2:
        return "very slow"
    if number % HOPELESS == 7:
        return "hopeless"
    if number % FAILING == 3:
        return "fails at first"
    return "slow" if number % SLOW == 11 else "good"


class Trouble:
    """What handlers of both kinds do with a message before their work."""

    def __init__(self, *, may_reject: bool) -> None:
        self._may_reject = may_reject

    def __call__(self, message) -> dict:
        from dupeproof.brokers.base import Reject

        found = message.json()
        match found["kind"]:
            case "hopeless" if self._may_reject:
                raise Reject("it always fails")
            case "fails at first" if message.attempt == 1:
                raise RuntimeError("it fails at first")
        time.sleep(found["seconds"])
        return found


# The processes


def transformer(servers: str, name: str, number: str, _: str) -> None:
    from dupeproof.brokers.kafka import forward, transform

    trouble = Trouble(may_reject=True)

    def copy(message):
        trouble(message)
        return [forward(message, f"{name}-copies")]

    transform(
        servers,
        f"{name}-in",
        copy,
        group=f"{name}-copiers",
        transactional_id=f"{name}-{number}",
        transaction_timeout=TRANSACTION,
        concurrency=2,
        backoff="100ms",
        config={**SHARING[name], "max.poll.interval.ms": POLL_MS},
    )


def sink(servers: str, name: str, _: str, database: str) -> None:
    from dupeproof import Inbox
    from dupeproof.brokers.kafka import consume

    trouble = Trouble(may_reject=False)

    def write(message, connection) -> None:
        found = trouble(message)
        connection.execute(
            "INSERT INTO effects (round, key, number) VALUES (%s, %s, %s)",
            (name, message.key, found["number"]),
        )

    consume(
        servers,
        queue=f"{name}-copies",
        handler=write,
        inbox=Inbox(f"{name}-sinks", database=database),
        missing_id="pass",
        batch=20,
        concurrency=3,
        backoff="100ms",
        config={**SHARING[name], "max.poll.interval.ms": POLL_MS},
    )


PROGRAMS = {"transformer": transformer, "sink": sink}


class Worker:
    """A process that is started again as soon as it was killed."""

    def __init__(self, program: str, servers: str, name: str, number: int, database: str, home: Path) -> None:
        self._command = [
            sys.executable,
            "-X",
            "faulthandler",
            __file__,
            program,
            servers,
            name,
            str(number),
            database,
        ]
        self.log = home / f"{name}-{program}-{number}.log"
        self.ends: list[str] = []
        """How it ended without being asked to."""
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def look(self) -> None:
        if (code := self.process.poll()) is not None:
            self.ends.append(f"{self.log.stem} ended with {code}: {self.log.read_text()[-3000:]}")
            self.start()

    def kill(self) -> None:
        self.look()
        self.process.kill()
        self.process.wait()
        self.start()

    def stop(self) -> None:
        self.look()
        self.process.send_signal(signal.SIGTERM)
        try:
            if (code := self.process.wait(60)) != 0:
                self.ends.append(f"{self.log.stem} ended with {code} after SIGTERM")
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # which writes where it stands into its log
            self.process.wait()
            self.ends.append(f"{self.log.stem} did not end after SIGTERM: {self.log.read_text()[-1500:]}")


# The round


def create(servers: str, *topics: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS) for topic in topics]).values():
        future.result(60)


def wait_whole(servers: str, seconds: float = 60.0) -> None:
    """Until every partition has all its replicas: to kill another broker before that would be to kill two."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin, until = AdminClient({"bootstrap.servers": servers}), time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            topics = admin.list_topics(timeout=10).topics.values()
        except KafkaException:
            continue
        if all(
            len(each.isrs) == len(each.replicas) for topic in topics for each in topic.partitions.values()
        ):
            return
        time.sleep(0.3)


def publish(servers: str, topic: str, count: int, seconds: float, very_slow: float) -> None:
    """Paced, so that the faults fall into the work."""
    from confluent_kafka import Producer

    failed: list = []
    settings = {"bootstrap.servers": servers, "enable.idempotence": True, "delivery.timeout.ms": 180_000}
    producer, began = Producer(settings), time.monotonic()
    for number in range(count):
        kind = kind_of(number, count)
        body = {"number": number, "kind": kind, "seconds": {"slow": 0.5, "very slow": very_slow}.get(kind, 0)}
        producer.produce(
            topic,
            json.dumps(body).encode(),
            f"k-{number % KEYS}".encode(),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        if number % 200 == 0:
            producer.poll(max(0.0, began + seconds * number / count - time.monotonic()))
    assert producer.flush(200) == 0
    assert not failed, failed[:3]


def committed(servers: str, topic: str, seconds: float = 60.0) -> list[tuple[str, int]]:
    """Key and number of all that is committed, in the order of each partition."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "report",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    partitions = reader.list_topics(topic, 20).topics[topic].partitions
    reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    found, ended, until = [], set(), time.monotonic() + seconds
    while len(ended) < len(partitions) and time.monotonic() < until:
        for each in reader.consume(1_000, 0.5):
            if each.error() is None:
                found.append((each.key().decode(), json.loads(each.value())["number"]))
                ended.discard(each.partition())
            elif each.error().code() == KafkaError._PARTITION_EOF:
                ended.add(each.partition())
    reader.close()
    return found


def judged(found: list[tuple[str, int]], expected: set[int]) -> dict[str, int]:
    counts = Counter(number for _, number in found)
    by_key = defaultdict(list)
    for key, number in found:
        by_key[key].append(number)
    return {
        "lost": len(expected - counts.keys()),
        "doubled": sum(counts.values()) - len(counts),
        "strange": len(counts.keys() - expected),
        "out of order": sum(a > b for each in by_key.values() for a, b in itertools.pairwise(each)),
    }


def round_of(name: str, cluster, database: str, home: Path, options) -> dict:
    import psycopg

    count, random_ = options.messages // len(options.sharing), random.Random(name)
    hopeless = {n for n in range(count) if kind_of(n, count) == "hopeless"}
    expected = set(range(count)) - hopeless
    create(cluster.url, f"{name}-in", f"{name}-copies")
    workers = [
        Worker(program, cluster.url, name, number, database, home)
        for program in PROGRAMS
        for number in range(2)
    ]
    began, errors = time.monotonic(), []

    def send() -> None:
        try:
            publish(cluster.url, f"{name}-in", count, options.seconds, options.very_slow)
        except BaseException as exc:
            errors.append(f"publishing: {exc!r}")

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    kills = bounces = 0
    with psycopg.connect(database, autocommit=True) as connection:

        def done() -> int:
            [row] = connection.execute("SELECT count(DISTINCT number) FROM effects WHERE round = %s", [name])
            return row[0]

        until = began + options.limit
        for number in range(options.faults):
            while done() < len(expected) * (number + 1) // (options.faults + 2) and time.monotonic() < until:
                time.sleep(0.2)
            random_.choice(workers).kill()
            kills += 1
            if number < options.bounces:
                node = cluster.nodes[number % len(cluster.nodes)]
                if number % 2:
                    node.restart()
                else:
                    node.kill()
                    node.start()
                bounces += 1
                wait_whole(cluster.url)
        while done() < len(expected) and time.monotonic() < until and not errors:
            for each in workers:
                each.look()
            time.sleep(0.2)
        took = time.monotonic() - began
        sender.join(10)
        time.sleep(options.quiet)  # a duplicate would come now
        for each in workers:
            each.stop()
        rows = [
            (key, number)
            for key, number in connection.execute(
                "SELECT key, number FROM effects WHERE round = %s ORDER BY seq", [name]
            )
        ]
    return {
        "sharing": name,
        "messages": count,
        "seconds": round(took, 1),
        "kills": kills,
        "bounces": bounces,
        "sent": judged(committed(cluster.url, f"{name}-in"), expected | hopeless),
        "copies": judged(committed(cluster.url, f"{name}-copies"), expected),
        "rows": judged(rows, expected),
        "dead letters": judged(committed(cluster.url, f"{name}-in.dead"), hopeless) if hopeless else {},
        "ended by themselves": [end for each in workers for end in each.ends] + errors,
    }


def is_good(report: dict) -> bool:
    figures = [*report["copies"].values(), *report["rows"].values(), *report["dead letters"].values()]
    return not any(figures) and not report["ended by themselves"]


def run(options) -> list[dict]:
    import psycopg

    from dupeproof import Inbox
    from dupeproof_lab.servers import KafkaCluster, Postgres

    reports = []
    with (
        tempfile.TemporaryDirectory(prefix="kafka-scenario-") as folder,
        Postgres() as postgres,
        KafkaCluster(settings=BROKERS) as cluster,
    ):
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(TABLE)
            Inbox("any").create_schema(connection)
        for name in options.sharing:
            reports.append(round_of(name, cluster, postgres.url, Path(folder), options))
            print(json.dumps(reports[-1]), flush=True)
            if options.logs and not is_good(reports[-1]):
                for log in Path(folder).glob(f"{name}-*.log"):
                    (Path(options.logs) / log.name).write_bytes(log.read_bytes())
    return reports


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, help="in all rounds together")
    parser.add_argument("--sharing", nargs="+", choices=SHARING, default=[*SHARING], help="a round with each")
    parser.add_argument("--faults", type=int, default=3, help="processes to kill in each round")
    parser.add_argument("--bounces", type=int, default=3, help="brokers to bounce in each round")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="over which the messages of a round are sent"
    )
    parser.add_argument(
        "--very-slow", type=float, default=10.0, help="seconds that one handler of a round takes"
    )
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a round is given up")
    parser.add_argument("--quiet", type=float, default=3.0, help="seconds to wait for duplicates at its end")
    parser.add_argument("--logs", help="a folder for the logs of a round that failed")
    return parser.parse_args(given)


def main() -> int:
    if sys.argv[1:2] and sys.argv[1] in PROGRAMS:
        PROGRAMS[sys.argv[1]](*sys.argv[2:])
        return 0
    reports = run(arguments())
    good = all(map(is_good, reports))
    total = {name: sum(each[name] for each in reports) for name in ("messages", "kills", "bounces")}
    print(f"{total}: {'0 lost, 0 doubled, 0 out of order, no process ended by itself' if good else 'FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
