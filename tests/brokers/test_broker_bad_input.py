"""What people get wrong: addresses, passwords, options, brokers that are not up yet. Each has its own clear answer."""

import logging
import time

import pytest
from brokers_places import PLACES, SERVERS, message

from dupeproof import AsyncInbox, AsyncOnce, ConfigError, Inbox, Once
from dupeproof.brokers import memory
from dupeproof.brokers.errors import BrokerUnavailable, NotPublished
from dupeproof_lab.servers import process

REAL = [pytest.param(name, marks=pytest.mark.server(SERVERS[name])) for name in SERVERS]
WITH_LOGIN = [each for each in REAL if each.values[0] != "kafka"]
URLS = {
    "rabbitmq": "amqp://user:secret@127.0.0.1:{}/",
    "redis_streams": "redis://127.0.0.1:{}/0",
    "nats": "nats://user:secret@127.0.0.1:{}",
    "kafka": "127.0.0.1:{}",
}


def plain(message):
    """A handler."""


def two(message, connection):
    """A handler with an inbox."""


async def tasks(message):
    """A handler for tasks."""


@pytest.fixture
def is_async(request):
    return getattr(request, "param", False)


def guard(is_async):
    return (AsyncOnce if is_async else Once)("memory://")


@pytest.mark.parametrize("is_async", [False, True], indirect=True)
@pytest.mark.parametrize("name", WITH_LOGIN)
def test_a_wrong_password_is_an_error_at_once_and_is_not_shown(request, name, is_async, run, until):
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    place.url = place.wrong_login
    password = place.url.rpartition("@")[0].rpartition(":")[2]
    running = run(place.consumer("orders", tasks if is_async else plain, once=guard(is_async)))
    until(lambda: running.ended)
    assert isinstance(running.error, ConfigError)
    assert "password" in str(running.error)
    assert password not in str(running.error)
    with pytest.raises(ConfigError, match="password") as caught:
        place.publish(message("orders", "m-1"), is_async=is_async)
    assert password not in str(caught.value)


@pytest.mark.parametrize("is_async", [False, True], indirect=True)
@pytest.mark.parametrize("name", REAL)
def test_a_broker_that_is_down_at_the_start_is_waited_for(name, is_async, run, until, caplog):
    caplog.set_level(logging.WARNING)
    place = PLACES[name](URLS[name].format(process.free_port()))
    consumer = place.consumer(
        "orders", tasks if is_async else plain, once=guard(is_async), backoff="50ms", max_backoff="100ms"
    )
    running = run(consumer)
    until(lambda: "trying again" in caplog.text)
    assert not running.ended
    began = time.monotonic()
    running.stop()
    assert time.monotonic() - began < 15
    assert "secret" not in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", REAL)
def test_publishing_to_a_broker_that_is_down_blames_no_message(name, is_async):
    place = PLACES[name](URLS[name].format(process.free_port()))
    options = {} if name == "redis_streams" else {"timeout": "2s"}
    publisher = place.publisher(is_async=is_async, **options)
    with pytest.raises(BrokerUnavailable) as caught:
        if is_async:
            import asyncio

            asyncio.run(publisher.publish([message("orders", "m-1")]))
        else:
            publisher.publish([message("orders", "m-1")])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("handler", "guards", "text"),
    [
        (plain, {}, "one of the two"),
        (plain, {"inbox": Inbox("g"), "once": Once("memory://")}, "one of the two"),
        (plain, {"once": AsyncOnce("memory://")}, "use Once"),
        (tasks, {"once": Once("memory://")}, "use AsyncOnce"),
        (tasks, {"inbox": Inbox("g")}, "use AsyncInbox"),
        (plain, {"inbox": AsyncInbox("g")}, "use Inbox"),
        (plain, {"inbox": "postgresql://"}, "takes an Inbox"),
        ("plain", {"once": Once("memory://")}, "must be a function"),
        (plain, {"once": Once("memory://"), "concurrency": 0}, "concurrency"),
        (plain, {"once": Once("memory://"), "batch": True}, "batch"),
        (plain, {"once": Once("memory://"), "missing_id": "drop"}, "'dead', 'content' or 'pass'"),
        (plain, {"once": Once("memory://"), "backoff": "soon"}, "backoff"),
        (plain, {"once": Once("memory://"), "id_of": "x-id"}, "id_of must be a function"),
        (plain, {"once": Once("memory://"), "middleware": plain}, "write middleware="),
        (plain, {"inbox": Inbox("g")}, "handler\\(message, connection\\) with inbox=, and plain"),
        (two, {"once": Once("memory://")}, "handler\\(message\\) with once="),
    ],
)
def test_options_that_make_no_sense_are_refused_when_a_consumer_is_made(handler, guards, text):
    with pytest.raises(ConfigError, match=text):
        memory.consumer("memory://bad-input", "orders", handler, **guards)


def test_an_option_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(TypeError, match=r"consume.* 'workers'; .* concurrency, "):
        memory.consume("memory://bad-input", "orders", plain, once=Once("memory://"), workers=4)


@pytest.mark.parametrize("name", [*SERVERS, "memory"])
@pytest.mark.parametrize(
    ("url", "queue", "text"),
    [(None, "orders", "url"), ("", "orders", "url"), ("x", None, "queue"), ("x", "", "queue")],
)
def test_nothing_is_no_place_to_consume_from(name, url, queue, text):
    with pytest.raises(ConfigError, match=f"{text} must be a text"):
        PLACES[name]("").module.consumer(url, queue, plain, once=Once("memory://"))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", SERVERS)
def test_an_address_that_was_not_set_is_told_by_a_publisher(name, is_async):
    place = PLACES[name]("")
    place.url = None
    with pytest.raises(ConfigError, match=r"address|found by|where"):
        place.publisher(is_async=is_async)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"prefetch": 0}, "prefetch"), ({"prefetch": "4"}, "prefetch"), ({"dead": "orders"}, "itself")],
)
def test_rabbitmq_is_not_asked_for_what_makes_no_sense(options, text):
    with pytest.raises(ConfigError, match=text):
        PLACES["rabbitmq"]("").module.consumer(
            "amqp://host/", "orders", plain, once=Once("memory://"), **options
        )


def test_an_inbox_without_a_database_says_what_is_missing(run, until):
    consumer = memory.consumer(
        "memory://bad-input", "orders", lambda m, c: None, inbox=Inbox("g"), create=True
    )
    with pytest.raises(ConfigError, match="database="):
        consumer.run()


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("rabbitmq", "http://user:secret@host/"),
        ("redis_streams", "http://user:secret@host/"),
        ("nats", "http://user:secret@host/"),
        ("kafka", "http://user:secret@host:9092"),
        ("memory", "memory://"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_an_address_of_another_kind_is_refused_without_being_shown_whole(name, url, is_async):
    place = PLACES[name]("")
    place.url = url
    with pytest.raises(ConfigError) as caught:
        place.consumer("orders", tasks if is_async else plain, once=guard(is_async))
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError):
        place.publisher(is_async=is_async)


def test_after_a_message_that_failed_none_with_its_key_is_sent():
    publisher = memory.MemoryPublisher("memory://keys")
    memory.broker_of("memory://keys").declare("there")
    results = publisher.publish(
        [
            message("missing", "m-1", key="a"),
            message("there", "m-2", key="a"),
            message("there", "m-3", key="b"),
            message("there", "m-4", key="b"),
            message("there", "m-5"),
        ]
    )
    assert [type(each).__name__ for each in results] == [
        "NotPublished",
        "HeldBack",
        "NoneType",
        "NoneType",
        "NoneType",
    ]
    assert isinstance(results[0], NotPublished)
    assert results[0].reason == "unroutable"
    ids = [entry.id for entry in memory.broker_of("memory://keys").queues["there"].waiting]
    assert sorted(ids) == ["m-3", "m-4", "m-5"]
    assert ids.index("m-3") < ids.index("m-4")
