"""The scenario of `make kafka-scenario`, small enough for every day."""

import pytest
from brokers_kafka_scenario import arguments, is_good, run


@pytest.mark.server("kafka", "postgres")
@pytest.mark.timeout(180)
def test_nothing_is_lost_doubled_or_out_of_order_with_a_kill_and_a_bounced_broker():
    small = "--messages 2000 --sharing cooperative-sticky --faults 1 --bounces 1 --seconds 5 --very-slow 2 --quiet 1"
    [report] = run(arguments([*small.split(), "--limit", "120"]))
    assert is_good(report), report
    assert (report["kills"], report["bounces"]) == (1, 1)
