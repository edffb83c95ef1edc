"""The demo's queue: it delivers at least once, and again what was not acknowledged."""

from dupeproof_lab.demo import queue as queues
from dupeproof_lab.demo.queue import Queue, make_messages


def test_the_same_seed_makes_the_same_messages():
    assert make_messages(100, seed=1) == make_messages(100, seed=1)
    assert make_messages(100, seed=1) != make_messages(100, seed=2)


def test_every_order_is_sent_and_a_tenth_of_them_twice():
    sent = [message.order_id for message in make_messages(200, seed=1)]
    assert len(sent) == 220
    assert len(set(sent)) == 200


def test_a_message_sent_twice_has_the_same_content_under_another_id():
    messages = make_messages(200, seed=1)
    assert len({(message.order_id, message.cents) for message in messages}) == 200
    assert [message.id for message in messages] == list(range(1, 221))


def test_what_is_not_acknowledged_is_delivered_again(tmp_path, monkeypatch):
    monkeypatch.setattr(queues, "HIDDEN_SECONDS", 0.05)
    queue = Queue(tmp_path / "queue.db")
    queue.send(make_messages(10, seed=1))
    delivered = []
    for message in queue.deliveries():
        delivered.append(message.id)
        if delivered.count(message.id) == 2 or message.id % 2:
            queue.ack(message)
    assert sorted(delivered) == sorted([*range(1, 12), *range(2, 12, 2)])
    assert queue.progress() == queues.Progress(acked=11, messages=11, deliveries=16)
    queue.close()


def test_a_message_put_back_comes_later(tmp_path):
    queue = Queue(tmp_path / "queue.db")
    queue.send(make_messages(10, seed=1))
    coming = queue.deliveries()
    first = next(coming)
    queue.put_back(first, 0.0)
    assert next(coming) == first
    queue.close()
