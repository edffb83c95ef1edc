"""Rates by group, from counts."""

from dupeproof import Once
from dupeproof.console import ConsoleListener
from dupeproof.console.growth import Growth
from dupeproof.core.events import Event, Kind
from dupeproof.core.records import Stats


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


def counted(marks, done=0, expired=0):
    return Stats(marks=marks, records={"done": done}, expired=expired)


def test_a_store_shows_how_many_keys_come_and_a_purge_is_no_arrival():
    growth = Growth()
    assert growth.rates() is None
    growth.add(0.0, counted(100), [5])
    assert growth.rates().seconds == 0.0
    growth.add(0.5, counted(100), [5])  # the same answer, shown once more
    growth.add(10.0, counted(150, done=50), [25])
    rates = growth.rates()
    assert (rates.seconds, rates.keys, rates.duplicates) == (10.0, 10.0, 2.0)
    assert (rates.keys_between, rates.duplicates_between) == ([10.0], [2.0])
    growth.add(20.0, counted(10), [25])  # purged
    assert growth.rates().keys_between == [10.0, 0.0]


def test_a_pause_in_which_nobody_looked_begins_the_figures_of_the_store_anew():
    growth = Growth()
    for at, marks in ((0.0, 0), (2.0, 10), (100.0, 10_000)):
        growth.add(at, counted(marks), [])
    assert growth.rates().seconds == 0.0


def test_a_store_that_takes_long_to_count_is_not_taken_for_a_pause():
    growth = Growth()
    for at in (0.0, 14.0, 60.0, 110.0):
        growth.add(at, counted(int(at) * 3), [])
    assert growth.rates().keys == 3.0
