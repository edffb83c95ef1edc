"""The outside world: charges that are made and stay made, and the count of them at the end.

It does not refuse a second charge for an order, as the world does not. It can be asked, as a payment provider can,
whether there is a charge; each question is written down too.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from dupeproof_lab.demo.queue import connect

_SCHEMA = """
CREATE TABLE IF NOT EXISTS charges (id INTEGER PRIMARY KEY, order_id TEXT NOT NULL, cents INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS charges_by_order ON charges (order_id);
CREATE TABLE IF NOT EXISTS questions (id INTEGER PRIMARY KEY, order_id TEXT NOT NULL);
"""


class Audit(Struct, frozen=True, kw_only=True):
    charges: list[int]
    """For each order, how often it was charged."""
    duplicates: int
    """Charges beyond the first of an order."""
    losses: int
    """Orders without a charge."""
    strangers: int
    """Charges for orders nobody made."""
    questions: int

    @property
    def exact(self) -> bool:
        return self.duplicates == self.losses == self.strangers == 0


class Ledger:
    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._connection.executescript(_SCHEMA)

    def charge(self, order_id: str, cents: int) -> None:
        """One row in a transaction of its own; from here on the money is gone."""
        self._connection.execute("INSERT INTO charges (order_id, cents) VALUES (?, ?)", (order_id, cents))

    def has_charge(self, order_id: str) -> bool:
        self._connection.execute("INSERT INTO questions (order_id) VALUES (?)", (order_id,))
        query = "SELECT EXISTS (SELECT 1 FROM charges WHERE order_id = ?)"
        return bool(self._connection.execute(query, (order_id,)).fetchone()[0])

    def audit(self, order_ids: Sequence[str]) -> Audit:
        """What was charged, held against what was ordered."""
        made = Counter(order_id for (order_id,) in self._connection.execute("SELECT order_id FROM charges"))
        charges = [made.pop(order_id, 0) for order_id in order_ids]
        questions = self._connection.execute("SELECT count(*) FROM questions").fetchone()[0]
        return Audit(
            charges=charges,
            duplicates=sum(count - 1 for count in charges if count > 1),
            losses=charges.count(0),
            strangers=sum(made.values()),
            questions=questions,
        )

    def close(self) -> None:
        self._connection.close()
