"""A request that its sender gave up, and sent again, may still reach the broker: in the middle of a later transaction."""

import confluent_kafka
import pytest
from brokers_places import KafkaPlace, message

from dupeproof.brokers.kafka import Transformer, forward
from dupeproof_lab.servers.process import free_port
from support.proxy import Proxy

TXN_OFFSET_COMMIT, END_TXN = b"\x00\x1c\x00\x03", b"\x00\x1a\x00\x01"
"""How these requests begin: their number and version."""


@pytest.fixture
def proxy(own_kafka):
    port = free_port()
    proxy = Proxy(f"kafka://127.0.0.1:{port}")
    own_kafka(port=port, settings={"advertised.listeners": f"PLAINTEXT://{proxy.url.partition('://')[2]}"})
    yield proxy
    proxy.close()


@pytest.fixture
def place(proxy):
    place = KafkaPlace(proxy.url.partition("://")[2])
    for name in ("in", "out"):
        place.declare(name, 1)
    return place


@pytest.fixture
def before(monkeypatch):
    """What to do before a producer's next call of a method."""
    planned = {}

    class Producer(confluent_kafka.Producer):
        def send_offsets_to_transaction(self, *args, **kwargs):
            planned.pop("send_offsets_to_transaction", int)()
            return super().send_offsets_to_transaction(*args, **kwargs)

        def commit_transaction(self, *args, **kwargs):
            planned.pop("commit_transaction", int)()
            return super().commit_transaction(*args, **kwargs)

    monkeypatch.setattr(confluent_kafka, "Producer", Producer)
    return planned


def transformer(place):
    return Transformer(
        place.url,
        "in",
        lambda message: [forward(message, "out")],
        group="copiers",
        transactional_id="copier",
        batch=1,
        config={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500},
    )


def ids(place, expected):
    return [dict(each.headers())["message-id"].decode() for each in place.read("out", expected)]


def copy_with_one_lost(place, proxy, run, until, request):
    running = run(transformer(place))
    place.publish(message("in", "m-0"))
    until(lambda: running.tally.read == 1, lambda: (running.tally, running.error))
    proxy.lose("late", request)
    place.publish(message("in", "m-1"))
    assert proxy.lost.wait(20)
    until(lambda: running.tally.read == 2, lambda: (running.tally, running.error))
    return running


def test_positions_that_come_late_do_not_take_back_later_ones(place, proxy, before, run, until):
    running = copy_with_one_lost(place, proxy, run, until, TXN_OFFSET_COMMIT)
    before["commit_transaction"] = proxy.arrive
    place.publish(message("in", "m-2"))
    until(lambda: running.tally.read == 3, lambda: (running.tally, running.error))
    assert proxy.arrived.is_set()
    running.stop()
    other = run(transformer(place))
    place.publish(message("in", "m-3"))
    until(lambda: other.tally.read >= 1, lambda: (other.tally, other.error))
    assert ids(place, 4) == ["m-0", "m-1", "m-2", "m-3"]
    other.stop()


def test_a_commit_that_comes_late_does_not_commit_half_of_a_later_transaction(
    place, proxy, before, run, until
):
    running = copy_with_one_lost(place, proxy, run, until, END_TXN)

    def arrive_and_die():
        proxy.arrive()
        raise SystemExit

    before["send_offsets_to_transaction"] = arrive_and_die
    place.publish(message("in", "m-2"))
    until(lambda: running.ended, lambda: running.tally)
    other = run(transformer(place))
    until(lambda: other.tally.read >= 1, lambda: (other.tally, other.error))
    assert ids(place, 3) == ["m-0", "m-1", "m-2"]
    other.stop()
