"""Apache Kafka: nodes that are broker and controller (KRaft), one or several, from the jars of its own release."""

import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import jars, process
from .base import ProcessServer, ServerFailed
from .certificates import Certificate
from .group import ServerGroup

_JAVA = ("-Xms96m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""A small heap, and no compiling for a long life: it starts in half the time."""
_CLUSTER = "ZHVwZXByb29mLXRlc3RzLQ"  # any 16 bytes in base64
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required {};"
_API_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)


class Kafka(ProcessServer):
    """`settings` are lines of server.properties: `{"num.partitions": 4}`. Topics are made when first asked for, as by default.

    With `users`, `{"app": "password"}`, there is a second address, `guarded_url`, where clients have to log in (SASL PLAIN).
    """

    name = "kafka"
    orphan_signal = signal.SIGKILL  # it has nothing outside its folder, and may take its time with SIGTERM

    def __init__(
        self,
        *,
        port: int | None = None,
        settings: Mapping[str, str | int] | None = None,
        users: Mapping[str, str] | None = None,
        tls: Certificate | None = None,
        search: Sequence[str] | None = None,
    ) -> None:
        super().__init__(port=port, search=search)
        self.controller, self._guarded = process.free_port(), process.free_port()
        self.node, self.voters = 1, {1: self.controller}
        """Which node of its cluster it is, and on which port each of them is a controller."""
        self._users = users or {}
        self._tls, self._tls_port = tls, process.free_port()
        one_node = {
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "share.coordinator.state.topic.min.isr": 1,
        }
        quick = {
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 500,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        }
        self._settings: dict[str, str | int] = {**one_node, **quick, **(settings or {})}

    def programs(self) -> dict[str, Path]:
        """The jars too: fetching them may take longer than a start."""
        places = super().programs()
        jars.ensure(places["mvn"])
        return places

    def prepare(self) -> None:
        addresses = {"PLAINTEXT": self.port, **({"SASL_PLAINTEXT": self._guarded} if self._users else {})}
        if self._tls is not None:
            addresses["SSL"] = self._tls_port
        # By the name that is in the certificate.
        listeners = [
            f"{name}://{'localhost' if name == 'SSL' else '127.0.0.1'}:{port}"
            for name, port in addresses.items()
        ]
        fixed: dict[str, str | int | Path] = {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "controller.quorum.voters": ",".join(
                f"{node}@127.0.0.1:{port}" for node, port in self.voters.items()
            ),
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{self.controller}"]),
            "advertised.listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in addresses)]
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _LOGIN.format(
                " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
            ),
            "log.dirs": self.home / "data",
        }
        lines = {**fixed, **self._secured(), **self._settings}
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        command = self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", self._properties)
        with self.log.open("ab") as log:
            running = process.spawn(
                command, cwd=self.home, log=log, user=self.user, end_signal=signal.SIGTERM
            )
        process.forget(running)
        if running.returncode != 0:
            raise ServerFailed(f"the storage could not be formatted\n{self.tail()}")

    def _secured(self) -> dict[str, str | int | Path]:
        if self._tls is None:
            return {}
        copy = self._tls.copied(self.home, self.user)
        store = self.home / "keystore.pem"
        store.write_bytes(copy.keyfile.read_bytes() + copy.certfile.read_bytes())
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": store}

    def command(self) -> Sequence[str | Path]:
        return self._java("kafka.Kafka", self._properties)

    def ready(self) -> bool:
        """The port is opened last; what answers on it must be our process, which has not ended."""
        return answers("127.0.0.1", self.port)

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        """With `tls`: another address, where clients have to speak it."""
        return f"kafkas://localhost:{self._tls_port}"

    @property
    def guarded_url(self) -> str:
        return f"127.0.0.1:{self._guarded}"

    @property
    def version(self) -> str:
        return jars.KAFKA

    @property
    def _properties(self) -> Path:
        return self.home / "server.properties"

    def _java(self, *arguments: str | Path) -> Sequence[str | Path]:
        places = self.programs()
        return [places["java"], *_JAVA, "-cp", f"{jars.ensure(places['mvn'])}/*", *arguments]


class KafkaCluster(ServerGroup):
    """Three brokers, or as many as asked for, that replicate everything among them; one of them may be away at a time.

    `nodes` holds them: `cluster.nodes[1].kill()`, and `start()` to have it back.
    """

    name = "kafka_cluster"
    nodes: Sequence[Kafka]

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, str | int] | None = None,
        search: Sequence[str] | None = None,
    ) -> None:
        copies = min(3, brokers)
        needed = max(1, copies - 1)
        replicated = {
            "default.replication.factor": copies,
            "min.insync.replicas": needed,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.num.partitions": 3,
            "transaction.state.log.min.isr": needed,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": needed,
        }
        quick = {"broker.session.timeout.ms": 6_000, "replica.lag.time.max.ms": 8_000}
        few = {"num.network.threads": 2, "num.io.threads": 4}
        self.nodes = [
            Kafka(settings={**replicated, **quick, **few, **(settings or {})}, search=search)
            for _ in range(brokers)
        ]
        voters = {number: node.controller for number, node in enumerate(self.nodes, 1)}
        for number, node in enumerate(self.nodes, 1):
            node.node, node.voters = number, voters

    @property
    def url(self) -> str:
        return ",".join(node.url for node in self.nodes)

    @property
    def version(self) -> str:
        return self.nodes[0].version


def answers(host: str, port: int) -> bool:
    """Whether a broker is there that can say which requests it knows."""
    with socket.create_connection((host, port), timeout=2) as connection:
        connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
        answer = connection.recv(10)
    return len(answer) == 10 and struct.unpack(">ih", answer[4:]) == (7, 0)


def kafka_version(url: str) -> str:
    """It does not tell its version to clients; that it is there must do."""
    host, _, port = url.partition(",")[0].rpartition(":")
    if not answers(host, int(port)):
        raise OSError("whoever listens there is no Kafka broker")
    return "?"
