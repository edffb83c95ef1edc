"""TLS by URL, with the same options for every broker; what is wrong with it is told at once, in a sentence."""

import asyncio
import contextlib
import socket
import sqlite3
import ssl
import threading

import pytest
from brokers_places import PLACES, message, new_queue

from dupeproof import AsyncOnce, AsyncRelay, ConfigError, Once, Outbox, Relay, StoreUnavailable
from dupeproof_lab.servers import Kafka, Nats, RabbitMQ, Redis
from support.certificates import Authority

KINDS = {"rabbitmq": RabbitMQ, "nats": Nats, "redis_streams": Redis, "kafka": Kafka}
PLAIN = {"rabbitmq": "amqp", "nats": "nats", "redis_streams": "redis", "kafka": "kafka"}
SECURE = {"rabbitmq": "amqps", "nats": "tls", "redis_streams": "rediss", "kafka": "kafkas"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.server(KINDS[name].name)) for name in KINDS]
)
def secured(request, authority):
    """A server with TLS, and its name."""
    with KINDS[request.param](tls=authority.certificate("localhost")) as server:
        yield request.param, server


@pytest.fixture
def place(secured, authority):
    name, server = secured
    return PLACES[name](f"{server.tls_url}?cafile={authority.cafile}")


def once_for(is_async):
    return (AsyncOnce if is_async else Once)("memory://", namespace=new_queue())


def consuming(place, queue, is_async, seen):
    async def handle_async(found):
        seen.append(found.id)

    def handle(found):
        seen.append(found.id)

    group = {} if place.name == "rabbitmq" else {"group": "readers"}
    handler = handle_async if is_async else handle
    return place.consumer(queue, handler, once=once_for(is_async), **group)


def relaying(place, is_async, tmp_path):
    """A relay with one message to publish."""
    connection = sqlite3.connect(tmp_path / "shop.db")
    with connection:
        Outbox().create_schema(connection)
        Outbox().add(connection, topic="orders", payload={})
    connection.close()
    kind = AsyncRelay if is_async else Relay
    return kind(f"sqlite:///{tmp_path}/shop.db", publisher=place.publisher(is_async=is_async))


def test_messages_go_over_tls(place, is_async, run, until):
    queue, seen = new_queue(), []
    running = run(consuming(place, queue, is_async, seen))
    until(lambda: place.publish(message(queue, "m-1"), is_async=is_async) == [None], lambda: running.error)
    until(lambda: "m-1" in seen, lambda: (seen, running.error))
    running.stop()


def faults(name, server, cafile):
    """An address, and what is to be said of it."""
    tls = server.tls_url
    plain = tls.replace(f"{SECURE[name]}://", f"{PLAIN[name]}://")
    return {
        "unknown authority": (tls, "verif", "cafile="),
        "other name": (f"{tls.replace('localhost', '127.0.0.1')}?cafile={cafile}", "certificate", "name"),
        "no such file": (f"{tls}?cafile=/no/such/ca.pem", "cafile=/no/such/ca.pem", "No such file"),
        "no TLS where it is spoken": (plain, "TLS", SECURE[name]),
    }


CASES = [
    "unknown authority",
    "other name",
    "no such file",
    "no TLS where it is spoken",
    "TLS where it is not",
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("role", ["consumer", "relay"])
def test_what_is_wrong_with_tls_is_told_at_once(secured, authority, case, role, is_async, tmp_path):
    name, server = secured
    if case == "TLS where it is not":
        with contextlib.ExitStack() as stack:
            other = server if name != "nats" else stack.enter_context(Nats())
            port = other.url.rpartition("@")[2].rpartition(":")[2].partition("/")[0]
            head, _, _ = server.tls_url.rpartition(":")
            check(
                name,
                f"{head}:{port}?cafile={authority.cafile}",
                ("TLS", PLAIN[name]),
                role,
                is_async,
                tmp_path,
            )
        return
    url, *texts = faults(name, server, authority.cafile)[case]
    if name == "nats" and case == "no TLS where it is spoken":
        # Its driver speaks TLS where the server says so, and trusts whom the system does.
        texts = ["verif", "cafile="]
    check(name, url, texts, role, is_async, tmp_path)


def check(name, url, texts, role, is_async, tmp_path):
    place = PLACES[name](url)

    def go():
        made = (
            consuming(place, "orders", is_async, [])
            if role == "consumer"
            else relaying(place, is_async, tmp_path)
        )
        if is_async:
            asyncio.run(asyncio.wait_for(made.run(), 20))
        else:
            watch = threading.Timer(20, made.stop)
            watch.start()
            try:
                made.run()
            finally:
                watch.cancel()

    with pytest.raises(ConfigError) as caught:
        go()
    for text in texts:
        assert text in str(caught.value)
    assert "@" not in str(caught.value).replace(":***@", "")


class Expired:
    """Shows a certificate that is out of date to all who come."""

    def __init__(self, authority):
        shown = authority.certificate(expired=True)
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(shown.certfile, shown.keyfile)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, contextlib.suppress(OSError):
                    self._context.wrap_socket(client, server_side=True).close()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


@pytest.fixture
def expired(authority):
    server = Expired(authority)
    yield server
    server.close()


@pytest.mark.parametrize("role", ["consumer", "relay"])
@pytest.mark.parametrize("name", ["rabbitmq", "redis_streams", "kafka"])
def test_a_certificate_that_is_out_of_date_is_told(name, expired, authority, role, is_async, tmp_path):
    """No broker is needed for that: nothing is said before the certificate is shown."""
    url = f"{SECURE[name]}://localhost:{expired.port}/?cafile={authority.cafile}"
    check(name, url, ("certificate",), role, is_async, tmp_path)


SEVERAL = ["rediss+sentinel://localhost:{port}/primary", "rediss+cluster://localhost:{port}"]


@pytest.mark.parametrize("role", ["consumer", "relay"])
@pytest.mark.parametrize("url", SEVERAL)
def test_a_certificate_of_sentinels_or_a_cluster_is_told(url, expired, authority, role, is_async, tmp_path):
    url = url.format(port=expired.port)
    known = f"{url}?cafile={authority.cafile}"
    check("redis_streams", known, ("certificate", "out of date"), role, is_async, tmp_path)
    check("redis_streams", url, ("certificate", "cafile="), role, is_async, tmp_path)
    plain = url.replace("rediss", "redis")
    check("redis_streams", plain, ("speaks TLS", "rediss"), role, is_async, tmp_path)


@pytest.mark.parametrize("url", SEVERAL)
def test_a_store_tells_of_the_certificate_of_sentinels_or_a_cluster(url, expired, authority, is_async):
    url = f"{url.format(port=expired.port)}?cafile={authority.cafile}&timeout=1s"

    async def call():
        async def work():
            return 1

        async with AsyncOnce(url, namespace="tls") as once:
            await once.run("k", work)

    def run():
        with Once(url, namespace="tls") as once:
            once.run("k", lambda: 1)

    with pytest.raises(StoreUnavailable, match="certificate that is out of date"):
        asyncio.run(call()) if is_async else run()


@pytest.mark.server("nats")
@pytest.mark.parametrize("role", ["consumer", "relay"])
def test_a_certificate_of_nats_that_is_out_of_date_is_told(authority, role, is_async, tmp_path):
    """It says something before it shows the certificate, so a real one is needed."""
    with Nats(tls=authority.certificate("localhost", expired=True)) as server:
        url = f"{server.tls_url}?cafile={authority.cafile}"
        check("nats", url, ("certificate", "out of date"), role, is_async, tmp_path)


@pytest.mark.parametrize("name", KINDS)
def test_options_of_tls_are_refused_without_it(name, authority):
    with pytest.raises(ConfigError, match=f"write {SECURE[name]}://"):
        PLACES[name](f"{PLAIN[name]}://localhost:1/?cafile={authority.cafile}").publisher()
    with pytest.raises(ConfigError, match="verify must be yes or no"):
        PLACES[name](f"{SECURE[name]}://localhost:1/?verify=maybe").publisher()
    with pytest.raises(ConfigError, match="certfile="):
        PLACES[name](f"{SECURE[name]}://localhost:1/?keyfile=key.pem").publisher()


def test_verification_can_be_switched_off(secured, is_async):
    name, server = secured
    place = PLACES[name](f"{server.tls_url.replace('localhost', '127.0.0.1')}?verify=no")
    queue = new_queue()
    [result] = place.publish(message(queue, "m-1"), is_async=is_async)
    assert result.reason == "unroutable"
