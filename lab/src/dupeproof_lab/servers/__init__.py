"""Real servers for tests: on private loopback ports, in temporary folders, gone when the test run is.

    with Redis() as server:
        once = Once(server.url)

Missing programs, of servers and of tools (`ensure("wrk")`), are installed from the distribution's packages where that is
possible.
"""

from . import install, jars, keyspace
from .base import ProcessServer, Server, ServerFailed, wait_until
from .certificates import Certificate
from .chromium import Chromium
from .cluster import RedisCluster
from .given import Given
from .group import ServerGroup
from .install import ServerMissing, ensure
from .kafka import Kafka, KafkaCluster
from .mariadb import MariaDB
from .nats import Nats
from .pgbouncer import PgBouncer
from .postgres import Postgres
from .rabbitmq import RabbitMQ
from .redis import Redis, Valkey
from .sentinel import RedisSentinel

__all__ = [
    "Certificate",
    "Chromium",
    "Given",
    "Kafka",
    "KafkaCluster",
    "MariaDB",
    "Nats",
    "PgBouncer",
    "Postgres",
    "ProcessServer",
    "RabbitMQ",
    "Redis",
    "RedisCluster",
    "RedisSentinel",
    "Server",
    "ServerFailed",
    "ServerGroup",
    "ServerMissing",
    "Valkey",
    "ensure",
    "install",
    "jars",
    "keyspace",
    "wait_until",
]
