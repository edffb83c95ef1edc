"""Redis Cluster: masters with or without replicas, on one machine."""

from collections.abc import Mapping, Sequence

from .base import wait_until
from .group import ServerGroup
from .redis import Redis
from .resp import RespError

SLOTS = 16384


class RedisCluster(ServerGroup):
    """`nodes` holds the first masters, then their replicas: kill a master and `wait_ok` until its replica took over."""

    name = "redis_cluster"
    nodes: Sequence[Redis]

    def __init__(
        self,
        masters: int = 3,
        replicas: int = 0,
        *,
        node_timeout_ms: int = 2000,
        options: Mapping[str, str | int] | None = None,
        search: Sequence[str] | None = None,
    ) -> None:
        settings: dict[str, str | int] = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": node_timeout_ms,
            "cluster-replica-validity-factor": 0,  # a replica may take over however long its master was away
            "cluster-allow-replica-migration": "no",  # a test finds the replicas where it left them
            "repl-diskless-sync-delay": 0,
            **(options or {}),
        }
        self._masters = masters
        self._formed = False
        self.nodes = [Redis(options=settings, search=search) for _ in range(masters * (1 + replicas))]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[: self._masters])

    @property
    def version(self) -> str:
        return self.nodes[0].version

    def start(self) -> None:
        super().start()
        if not self._formed:
            self._form()
        self.wait_ok()

    def stop(self) -> None:
        super().stop()
        self._formed = False

    def alive(self) -> list[Redis]:
        return [node for node in self.nodes if node.pid is not None]

    def masters(self) -> dict[int, str]:
        """Port and node id of those that serve slots now, as the first node alive sees it."""
        with self.alive()[0].connect() as resp:
            rows = [line.split() for line in resp.text("CLUSTER", "NODES").splitlines()]
        serving = [row for row in rows if len(row) > 8 and "fail" not in row[2].split(",")]
        return {int(row[1].partition("@")[0].rpartition(":")[2]): row[0] for row in serving}

    def wait_ok(self, *, seconds: float = 30.0) -> None:
        """Wait until every node alive sees all slots served by nodes alive, and every replica follows its master."""
        wait_until(lambda: all(map(self._is_ok, self.alive())), seconds=seconds, what="the cluster is not ok")

    def _is_ok(self, node: Redis) -> bool:
        alive = {other.port for other in self.alive()}
        with node.connect() as resp:
            rows = [line.split() for line in resp.text("CLUSTER", "NODES").splitlines()]
            served = {int(row[1].partition("@")[0].rpartition(":")[2]) for row in rows if len(row) > 8}
            state = resp.facts("CLUSTER", "INFO")["cluster_state"]
            link = resp.facts("INFO", "replication").get("master_link_status", "up")
        return state == "ok" and link == "up" and served <= alive

    def _form(self) -> None:
        """What `redis-cli --cluster create` does, without asking and without its fixed waits."""
        bounds = [SLOTS * i // self._masters for i in range(self._masters + 1)]
        for i, node in enumerate(self.nodes):
            with node.connect() as resp:
                resp.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
                if i < self._masters:
                    resp.call("CLUSTER", "ADDSLOTSRANGE", bounds[i], bounds[i + 1] - 1)
                for other in self.nodes[:i]:  # everybody meets everybody: gossip would get there too, later
                    resp.call("CLUSTER", "MEET", "127.0.0.1", other.port)
        wait_until(lambda: all(map(self._knows_all, self.nodes)), what="the nodes have not met")
        masters = self.masters()
        for i, node in enumerate(self.nodes[self._masters :]):
            with node.connect() as resp:
                resp.call("CLUSTER", "REPLICATE", masters[self.nodes[i % self._masters].port])
        self._formed = True

    def _knows_all(self, node: Redis) -> bool:
        try:
            with node.connect() as resp:
                rows = [line.split() for line in resp.text("CLUSTER", "NODES").splitlines()]
        except RespError:
            return False
        met = [row for row in rows if "handshake" not in row[2] and row[7] == "connected"]
        serving = [row for row in rows if len(row) > 8]
        return len(rows) == len(met) == len(self.nodes) and len(serving) == self._masters
