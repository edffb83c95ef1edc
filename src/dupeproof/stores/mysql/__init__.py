"""MariaDB and MySQL: the tables of inbox and outbox. They are no store for claims and marks."""

from importlib.resources import files

INBOX = files(__package__).joinpath("inbox.sql").read_text()
OUTBOX = files(__package__).joinpath("outbox.sql").read_text()
SCHEMA = f"{INBOX}\n{OUTBOX}"
