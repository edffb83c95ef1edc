"""Redis: one of our own that writes its log to disk every second, or one that was given."""

from contextlib import ExitStack
from functools import cached_property
from typing import Self

from dupeproof.errors import ConfigError
from dupeproof.stores.urls import parse_url, redact
from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.servers import Redis, keyspace

# A rewrite of the log forks in the middle of somebody's round.
_SETTINGS: dict[str, str | int] = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "auto-aof-rewrite-percentage": 0,
}


class RedisSite(Environment):
    """On a given server nothing is removed: what a candidate writes there expires by itself."""

    store = "redis"

    def __init__(self, given: str | None = None) -> None:
        if given is not None and parse_url(given).scheme != "redis":
            raise ConfigError(f"the benchmark takes a single Redis, redis://host:6379/0, not {redact(given)}")
        self._given = given
        self._server = Redis(options=_SETTINGS)
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        return self._server.url if self._given is None else self._given

    @cached_property
    def durability(self) -> str:
        settings = self._settings("appendonly") | self._settings("appendfsync") | self._settings("save")
        if settings["appendonly"] == "yes":
            often = {"always": "each write", "everysec": "each second", "no": "by the system"}
            return f"restarts (log synced {often[settings['appendfsync']]})"
        return "restarts (snapshots)" if settings["save"] else "none"

    def _settings(self, name: str) -> dict[str, str]:
        with keyspace.one_master(self.url) as resp:
            answer = resp.call("CONFIG", "GET", name)
        assert isinstance(answer, list)
        return {str(answer[0]): str(answer[1])}

    @property
    def version(self) -> str:
        with keyspace.one_master(self.url) as resp:
            return resp.facts("INFO", "server")["redis_version"]

    @property
    def pids(self) -> list[int]:
        pid = None if self._given is not None else self._server.pid
        return [] if pid is None else [pid]

    def clean(self) -> None:
        if self._given is None:
            keyspace.empty(self.url)

    def size(self) -> int:
        with keyspace.one_master(self.url) as resp:
            facts = resp.facts("INFO", "memory")
        return int(facts["used_memory"]) - int(facts.get("mem_aof_buffer", 0))

    def __enter__(self) -> Self:
        if self._given is None:
            self._stack.enter_context(self._server)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
