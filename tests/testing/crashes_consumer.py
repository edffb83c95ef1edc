"""A consumer in a process of its own: takes the messages m-0 to m-4 from a file database, one by one.

python crashes_consumer.py URL
"""

import sys

from dupeproof import Inbox
from dupeproof.testing import reached

MESSAGES = [f"m-{n}" for n in range(5)]


def consume(inbox, message):
    with inbox.transaction() as connection:
        if inbox.first(connection, message):
            connection.execute("UPDATE balance SET amount = amount + 1")
            reached("shop.charged")


if __name__ == "__main__":
    ours = Inbox("billing", database=sys.argv[1])
    for each in MESSAGES:
        consume(ours, each)
