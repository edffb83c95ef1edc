"""A relay that is killed at any point, or frozen past its lease, loses nothing and breaks no order."""

import signal
import threading
import time

import psycopg
import pytest
from outbox_deliveries import wait_for

from dupeproof import Relay
from dupeproof.core.events import Kind
from dupeproof.testing import Crashed, crash_at

POINTS = [
    ("before publishing", 0),
    ("before publishing", 3),
    ("after publishing", 1),
    ("before settling", 1),
    ("after settling", 1),
]


@pytest.mark.parametrize(("point", "after"), POINTS)
def test_killed_between_any_two_steps_it_loses_nothing(box, deliveries, point, after):
    for number in range(12):
        box.add(number, key=f"k{number % 3}")
    dying = deliveries.start(box.url, batch=6, die_at=point, after=after)
    assert dying.wait(30) == -signal.SIGKILL
    next_one = deliveries.start(box.url)
    wait_for(lambda: box.waiting() == 0, what="the rest")
    next_one.send_signal(signal.SIGTERM)
    assert next_one.wait(30) == 0
    assert deliveries.firsts() == {f"k{key}": list(range(key, 12, 3)) for key in range(3)}
    assert deliveries.duplicates() <= 6, "more was sent again than was in hand"


def test_what_was_under_way_is_sent_again_and_counted(box, deliveries):
    box.add(*range(5), key="k")
    deliveries.start(box.url, die_at="before settling", after=5).wait(30)
    assert deliveries.by_key() == {"k": [0, 1, 2, 3, 4]}
    deliveries.start(box.url)
    wait_for(lambda: box.waiting() == 0)
    assert deliveries.by_key() == {"k": [0, 1, 2, 3, 4] * 2}
    [(taken_over,)] = box.all("SELECT sum(taken_over) FROM dupeproof_outbox_shards")
    assert taken_over == 1


def test_a_relay_that_was_frozen_past_its_lease_spoils_nothing(box):
    """The late one fails its message; the one that took over has the last word on it."""
    box.add("a1", "a2", key="a")
    events, got = [], []

    def slow_then_fails(message):
        # While this one is at it, its lease runs out, and another one does all there is.
        with Relay(box.url, publisher=lambda each: got.append(each.json()), lease="10s") as other:
            wait_for(lambda: other.run_once() == 2)
        raise ValueError("too late to matter")

    with Relay(box.url, publisher=slow_then_fails, lease="100ms", max_attempts=1) as late:
        late.run_once()
        assert (late.status().dead, late.status().failing, late.status().backlog) == (0, 0, 0)
    assert got == ["a1", "a2"]

    box.add("b1", key="b")

    def slow_then_sends(message):
        with Relay(box.url, publisher=lambda each: got.append(each.json()), lease="10s") as other:
            wait_for(lambda: other.run_once() == 1)

    with Relay(box.url, publisher=slow_then_sends, lease="100ms", events=[events.append]) as late:
        assert late.run_once() == 1
    assert [event.count for event in events if event.kind is Kind.SENT_AGAIN] == [1]


def test_a_late_failure_does_not_touch_a_message_that_another_has_in_hand(box):
    box.add("a1", key="a")
    seen = []

    def outer(message):
        def inner(message):
            seen.append("inner")
            raise ValueError("inner")

        with Relay(box.url, publisher=inner, lease="10s", backoff="1h", max_attempts=5) as other:
            wait_for(lambda: other.run_once() == 0 and seen)
        raise ValueError("outer")

    with Relay(box.url, publisher=outer, lease="100ms", backoff="1ms", max_attempts=1) as late:
        late.run_once()
        status = late.status()
    assert (status.failing, status.dead, status.backlog) == (1, 0, 1)
    # The first attempt is that of the one which was too slow.
    assert box.all("SELECT attempts, error FROM dupeproof_outbox_failing") == [(2, "ValueError: inner")]


def test_a_publisher_slower_than_the_lease_still_gets_it_done(box):
    """What was confirmed is removed, whoever owns the shard by then; else it would be sent for ever."""
    box.add("a1", key="a")
    waiting = []

    def slow(message):
        wait_for(lambda: not waiting.append(1) and len(waiting) % 10 == 0)

    with Relay(box.url, publisher=slow, lease="50ms") as running:
        assert running.run_once() == 1
    assert box.waiting() == 0


def test_a_frozen_relay_that_wakes_up_sends_no_more_than_what_it_was_at(box, deliveries):
    box.add(*range(20), key="k")
    frozen = deliveries.start(box.url, pace=0.05)
    wait_for(lambda: len(deliveries.by_key().get("k", ())) >= 3)
    frozen.send_signal(signal.SIGSTOP)
    deliveries.start(box.url)
    wait_for(lambda: box.waiting() == 0, what="the one that took over")
    sent = deliveries.by_key()["k"]
    frozen.send_signal(signal.SIGCONT)
    frozen.send_signal(signal.SIGTERM)
    assert frozen.wait(30) == 0
    assert deliveries.firsts() == {"k": list(range(20))}
    assert len(deliveries.by_key()["k"]) <= len(sent) + 1


def test_it_works_behind_a_transaction_pooler(box_on_postgres, own_pgbouncer):
    box = box_on_postgres
    box.add(*range(10), key="k")
    got = []
    url = own_pgbouncer(box.url).url
    running = Relay(url, publisher=lambda message: got.append(message.json()), poll="20ms", listen=False)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        wait_for(lambda: len(got) == 10)
        box.add(*range(10, 20), key="k")
        wait_for(lambda: len(got) == 20)
    finally:
        running.stop()
        thread.join()
    assert got == list(range(20))


def test_late_commits_are_not_skipped(box_on_postgres, deliveries):
    box = box_on_postgres
    with psycopg.connect(box.url) as late:
        box.outbox.add(late, topic="t", payload=1, key="late")
        box.add(2, key="early")
        relay = deliveries.start(box.url)
        wait_for(lambda: deliveries.by_key() == {"early": [2]}, what="what was committed")
        late.commit()
        wait_for(lambda: deliveries.by_key() == {"early": [2], "late": [1]}, what="what was committed late")
    relay.send_signal(signal.SIGTERM)
    assert relay.wait(30) == 0


def test_relays_beside_each_other_share_the_work_and_send_nothing_twice(box, deliveries):
    for number in range(300):
        box.add(number, key=f"k{number % 30}")
    relays = [deliveries.start(box.url, batch=20, pace=0.002, lease="30s") for _ in range(3)]
    wait_for(lambda: box.waiting() == 0 and all(map(deliveries.at_work, relays)), what="all of them")
    for relay in relays:
        relay.send_signal(signal.SIGTERM)
    assert [relay.wait(30) for relay in relays] == [0, 0, 0]
    assert deliveries.by_key() == {f"k{key}": list(range(key, 300, 30)) for key in range(30)}


def test_a_test_can_let_a_relay_die_between_publishing_and_marking(box, relay):
    box.add("a1", "a2", key="a")
    got = []
    with relay(box.url, publisher=got.append, lease="1s") as running:
        with pytest.raises(Crashed), crash_at("after-publish-before-mark"):
            running.run_once()
        assert box.waiting() == 2
        give_up = time.monotonic() + 20
        while box.waiting() and time.monotonic() < give_up:
            running.run_once()
    assert [message.json() for message in got] == ["a1", "a2", "a1", "a2"]


def test_a_message_that_kills_its_relay_is_put_aside(box, deliveries):
    """Attempts are written down before the try: two of them here, and no third."""
    [killer] = box.add("killer", key="k")
    for _ in range(2):
        assert (
            deliveries.start(box.url, lease="200ms", kills="killer", max_attempts=2).wait(30)
            == -signal.SIGKILL
        )
    relay = deliveries.start(box.url, lease="200ms", kills="killer", max_attempts=2)
    wait_for(lambda: box.waiting() == 0)
    assert box.all("SELECT id, attempts FROM dupeproof_outbox_dead") == [(killer, 2)]
    [(error,)] = box.all("SELECT error FROM dupeproof_outbox_dead")
    assert "its relay ended" in error
    relay.send_signal(signal.SIGTERM)
    assert relay.wait(30) == 0


def test_what_was_in_hand_beside_a_killer_is_not_put_aside_with_it(box, deliveries):
    """Not even where one attempt is all there is: after a crash each is tried alone."""
    for number in range(20):
        box.add(number, key=f"k{number % 4}")
    [killer] = box.add("killer", key="k2")
    for number in range(20, 40):
        box.add(number, key=f"k{number % 4}")
    deaths = 0
    while box.waiting() > 9:  # what comes after the killer with its key waits for it
        relay = deliveries.start(box.url, lease="200ms", kills="killer", max_attempts=1)
        wait_for(lambda relay=relay: relay.poll() is not None or box.waiting() <= 9)
        if relay.poll() is not None:
            deaths += 1
            assert deaths <= 2, "once with others, once alone"
        else:
            wait_for(lambda: box.waiting() == 5)
            relay.send_signal(signal.SIGTERM)
            assert relay.wait(30) == 0
    assert box.all("SELECT id FROM dupeproof_outbox_dead") == [(killer,)]
    waiting = list(range(22, 40, 4))
    assert deliveries.firsts() == {
        f"k{key}": [n for n in range(key, 40, 4) if n not in waiting] for key in range(4)
    }


def test_a_relay_hands_over_no_more_than_a_batch(box):
    for number in range(40):
        box.add(number, key=f"k{number}")
    for batch in (1, 5, 20):
        sizes = []

        class Counting:
            def publish(self, messages, sizes=sizes):
                sizes.append(len(messages))
                return [None] * len(messages)

        with Relay(box.url, publisher=Counting(), batch=batch) as running:
            assert running.run_once() == 40
        assert max(sizes) <= batch
        assert sum(sizes) == 40
        for number in range(40):
            box.add(number, key=f"k{number}")


def test_two_messages_with_one_id_are_both_published(box, relay):
    box.add(1, 2, id="same", key="k")
    got = []
    with relay(box.url, publisher=got.append) as running:
        assert running.run_once() == 2
    assert [(message.id, message.json()) for message in got] == [("same", 1), ("same", 2)]
