"""Rates by group, from counts."""

from dupeproof import Once
from dupeproof.console import ConsoleListener
from dupeproof.core.events import Event, Kind


class Time:
    now = 100.0

    def __call__(self):
        return self.now


def test_rates_are_by_group_and_over_the_last_seconds():
    time = Time()
    listener = ConsoleListener(clock=time)
    assert listener.rates().seconds == 0.0
    orders, mail = (Once("memory://", namespace=name, events=[listener]) for name in ("orders", "mail"))
    for n in range(30):
        orders.seen(f"o-{n % 10}")
    mail.run("m", lambda: 1)
    mail.run("m", lambda: 1)
    time.now += 10
    rates = listener.rates()
    found = {each.group: (each.arriving, each.duplicates, each.share) for each in rates.groups}
    assert found == {"orders": (3.0, 2.0, 2 / 3), "mail": (0.2, 0.1, 0.5)}
    assert [each.group for each in rates.groups] == ["orders", "mail"]
    assert (rates.total.arriving, rates.arriving, rates.duplicates) == (3.2, [3.2], [2.1])


def test_batches_count_by_their_size_and_trouble_since_the_beginning():
    time = Time()
    listener = ConsoleListener(clock=time)
    listener.rates()
    listener(Event(kind=Kind.FRESH, namespace="g", count=500))
    listener(Event(kind=Kind.HELD, namespace="g"))
    listener(Event(kind=Kind.STORE_CALL, namespace="", name="claim", count=9))
    time.now += 1
    [group] = listener.rates().groups
    assert (group.arriving, group.trouble["held"]) == (501.0, 1)
    time.now += 1
    assert listener.rates().groups[0].trouble["held"] == 1


def test_a_pause_in_which_nobody_looked_is_left_out():
    time = Time()
    listener = ConsoleListener(clock=time)
    listener.rates()
    listener(Event(kind=Kind.FRESH, namespace="g", count=3_600))
    time.now += 3_600
    assert (listener.rates().seconds, listener.rates().arriving) == (0.0, [])
