# Written by tools/twins.py from src/dupeproof/stores/redis/_async/sessions.py; change that file instead.
"""The redis-py clients for a target, made anew where they cannot be carried over: another loop, a forked child."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from dupeproof.stores._sync.runtime import Mutex, home
from dupeproof.stores.redis._sync.cluster import Cluster
from dupeproof.stores.redis.targets import Target


class Session(Struct, frozen=True):
    home: object
    server: Any
    cluster: Cluster | None
    closing: Sequence[Any]


class Sessions:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._session: Session | None = None
        self._opening = Mutex()

    def current(self) -> Session:
        session = self._session
        if session is None or session.home is not home():
            with self._opening:
                session = self._session
                if session is None or session.home is not home():
                    session = self._session = self._open()
        return session

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and session.home is home():
            for each in session.closing:
                each.close()

    def _open(self) -> Session:
        target = self._target
        # The driver must not send a command twice by itself: it cannot know which ones bear it.
        options = {"retry": Retry(NoBackoff(), 0), **target.options}
        if target.kind == "cluster":
            cluster = Cluster(target.hosts, options, target.timeout)
            return Session(home(), None, cluster, [cluster])
        if target.kind == "sentinel":
            # Asked one after the other, without the driver's pauses in between: all of them within the timeout.
            patience = target.timeout / len(target.hosts)
            asking = {"retry": options["retry"], **target.sentinel_options}
            asking.update(socket_timeout=patience, socket_connect_timeout=patience)
            group = Sentinel(target.hosts, sentinel_kwargs=asking)
            primary = group.master_for(target.service, **options)
            return Session(home(), primary, None, [primary, *group.sentinels])
        host, port = target.hosts[0]
        server = Redis(host=host, port=port, **options)
        return Session(home(), server, None, [server])
