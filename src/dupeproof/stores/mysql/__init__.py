"""MariaDB and MySQL: the inbox's tables. They are no store for claims and marks."""

from importlib.resources import files

SCHEMA = files(__package__).joinpath("inbox.sql").read_text()
