"""Apache Kafka: one node that is broker and controller (KRaft), from the jars of its own release."""

import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import jars, process
from .base import ProcessServer, ServerFailed

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
        search: Sequence[str] | None = None,
    ) -> None:
        super().__init__(port=port, search=search)
        self._controller, self._guarded = process.free_port(), process.free_port()
        self._users = users or {}
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
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in addresses.items()]
        fixed: dict[str, str | int | Path] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller}",
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{self._controller}"]),
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
        lines = {**fixed, **self._settings}
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        command = self._java(
            "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", self._properties, "--standalone"
        )
        with self.log.open("ab") as log:
            running = process.spawn(
                command, cwd=self.home, log=log, user=self.user, end_signal=signal.SIGTERM
            )
        process.forget(running)
        if running.returncode != 0:
            raise ServerFailed(f"the storage could not be formatted\n{self.tail()}")

    def command(self) -> Sequence[str | Path]:
        return self._java("kafka.Kafka", self._properties)

    def ready(self) -> bool:
        """The port is opened last; what answers on it must be our process, which has not ended."""
        return answers("127.0.0.1", self.port)

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

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
