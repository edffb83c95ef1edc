"""Redis with Sentinel: a master, a replica, and the sentinels that fail over from one to the other."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from .base import wait_until
from .group import ServerGroup
from .redis import Redis
from .resp import Resp

MASTER_NAME = "mymaster"


class Replica(Redis):
    """Follows a master whose port is known only once both start."""

    def __init__(
        self, master: Redis, *, options: Mapping[str, str | int], search: Sequence[str] | None = None
    ) -> None:
        super().__init__(options=options, search=search)
        self._master = master

    def prepare(self) -> None:
        self._options["replicaof"] = f"127.0.0.1 {self._master.port}"
        super().prepare()


class Sentinel(Redis):
    """One sentinel. Watches the master from the moment it starts."""

    def __init__(
        self, master: Redis, *, quorum: int, down_after_ms: int, search: Sequence[str] | None = None
    ) -> None:
        super().__init__(search=search)
        self._master = master
        self._quorum = quorum
        self._down_after_ms = down_after_ms

    def prepare(self) -> None:
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"dir {self.home}",
            f"sentinel monitor {MASTER_NAME} 127.0.0.1 {self._master.port} {self._quorum}",
            f"sentinel down-after-milliseconds {MASTER_NAME} {self._down_after_ms}",
            f"sentinel failover-timeout {MASTER_NAME} 5000",
        ]
        self._conf.write_text("\n".join(lines) + "\n")

    def command(self) -> Sequence[str | Path]:
        return [*super().command(), "--sentinel"]

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.port}/{MASTER_NAME}"

    def sees(self) -> dict[str, str]:
        """What it knows of the master."""
        with self.connect() as resp:
            reply = resp.call("SENTINEL", "MASTER", MASTER_NAME)
        assert isinstance(reply, list)
        words = [str(word) for word in reply]
        return dict(zip(words[::2], words[1::2], strict=True))


class RedisSentinel(ServerGroup):
    """`master` and `replica` are so named after the beginning; `master_port` asks the sentinels who it is now."""

    name = "redis_sentinel"

    def __init__(
        self,
        sentinels: int = 3,
        *,
        down_after_ms: int = 1000,
        options: Mapping[str, str | int] | None = None,
        search: Sequence[str] | None = None,
    ) -> None:
        settings: dict[str, str | int] = {"repl-diskless-sync-delay": 0, **(options or {})}
        self.master = Redis(options=settings, search=search)
        self.replica = Replica(self.master, options=settings, search=search)
        self._formed = False
        quorum = sentinels // 2 + 1
        self.sentinels = [
            Sentinel(self.master, quorum=quorum, down_after_ms=down_after_ms, search=search)
            for _ in range(sentinels)
        ]
        self.nodes = [self.master, self.replica, *self.sentinels]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{MASTER_NAME}"

    @property
    def version(self) -> str:
        return self.master.version

    def start(self) -> None:
        if not self._formed:
            # The sentinels last: they find the replica by asking the master, and ask again only ten seconds later.
            self.master.start()
            self.replica.start()
            wait_until(self._follows, what="the replica does not follow the master")
        super().start()
        wait_until(self._is_complete, what="the sentinels have not found each other and the replica")
        # After a fail-over it is the sentinels who tell the old master whom to follow.
        wait_until(self._follows, what="neither follows the other")
        self._formed = True

    def stop(self) -> None:
        super().stop()
        self._formed = False

    def master_port(self) -> int:
        """Who the master is now, asked of the sentinels that run; they may differ for a moment during a fail-over."""
        return int(next(sentinel for sentinel in self.sentinels if sentinel.pid is not None).sees()["port"])

    def wait_failover(self, old_port: int, *, seconds: float = 30.0) -> int:
        """Wait until every sentinel that runs names another master, and that one takes writes: its port."""

        def moved() -> bool:
            ports = {int(each.sees()["port"]) for each in self.sentinels if each.pid is not None}
            if len(ports) != 1 or old_port in ports:
                return False
            with Resp(ports.pop()) as resp:
                return resp.facts("INFO", "replication")["role"] == "master"

        wait_until(moved, seconds=seconds, what="the sentinels have not failed over")
        return self.master_port()

    def _follows(self) -> bool:
        """One of the two follows the other; which, depends on what happened before."""
        links = []
        for node in (self.master, self.replica):
            with node.connect() as resp:
                links.append(resp.facts("INFO", "replication").get("master_link_status"))
        return "up" in links

    def _is_complete(self) -> bool:
        others = str(len(self.sentinels) - 1)
        facts = [sentinel.sees() for sentinel in self.sentinels]
        return all(fact["num-slaves"] == "1" and fact["num-other-sentinels"] == others for fact in facts)
