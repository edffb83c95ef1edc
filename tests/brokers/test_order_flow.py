"""The example of the whole flow, on each broker: what was ordered is owed, although all was published twice."""

import sys
from pathlib import Path

import pytest
from brokers_places import SERVERS

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import order_flow


def test_its_reader_is_told_how_to_start_it():
    text = (Path(order_flow.__file__).parent / "README.md").read_text()
    assert all(name in text for name in ("examples/order_flow.py", *order_flow.SERVERS))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.server(SERVERS[name])) for name in SERVERS]
)
def test_what_was_ordered_is_owed(request, name, postgres_url, monkeypatch):
    from brokers_places import new_queue

    monkeypatch.setattr(order_flow, "TOPIC", new_queue())
    url = request.getfixturevalue(f"{SERVERS[name]}_server").url
    found = order_flow.run(name, url, postgres_url)
    assert found["owed"] == found["ordered"] == sum(10 + n for n in range(30))
    assert found["removed"] >= 30
    assert found["tally"].done == 30
