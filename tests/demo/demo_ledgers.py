"""Ledgers made by hand, to see whether the demo notices what is wrong with them."""

from dupeproof_lab.demo.ledger import Ledger
from dupeproof_lab.demo.queue import order_name
from dupeproof_lab.demo.report import Report
from dupeproof_lab.demo.run import Outcome


def report_of(tmp_path, *charged, orders=10):
    """A report on ten orders as if dupeproof had made these charges, by the number of the order."""
    ledger = Ledger(tmp_path / "ledger.db")
    for number in charged:
        ledger.charge(order_name(number), 100)
    audit = ledger.audit([order_name(number) for number in range(orders)])
    ledger.close()
    outcome = Outcome(
        name="dupeproof",
        title="dupeproof",
        idea="by hand",
        orders=orders,
        messages=orders,
        deliveries=orders,
        kills=1,
        seconds=1.0,
        audit=audit,
    )
    return Report(seed=1, orders=orders, outcomes=[outcome])
