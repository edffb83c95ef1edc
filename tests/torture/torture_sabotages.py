"""The sabotages that need a real broker; `make sabotage` runs them beside those of the test suite."""

import pytest
from torture_runs import caught


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("broker", "name", "wrong"),
    [
        pytest.param(broker, name, wrong, marks=pytest.mark.server(broker, "postgres"), id=f"{broker}-{name}")
        for broker, name, wrong in (
            ("rabbitmq", "lose_retries", "lost"),
            ("rabbitmq", "ignore_order", "out_of_order"),
            ("kafka", "remove_the_fence", "doubled"),
            ("rabbitmq", "drop_while_the_database_is_down", "lost"),
            ("rabbitmq", "drop_what_comes_again", "lost"),
        )
    ],
)
def test_a_sabotaged_library_is_caught(torture, monkeypatch, broker, name, wrong):
    caught(torture, monkeypatch, broker, name, wrong)
