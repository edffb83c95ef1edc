"""Commands on a MariaDB, which holds inboxes and outboxes and no records."""

import pytest

from dupeproof import Inbox
from dupeproof.cleanup import AsyncPurger, Purger

SCHEMES = ["mysql", "mariadb", "mysql+pymysql"]
ELSEWHERE = "MariaDB and MySQL hold inboxes and outboxes only"


def fill(url):
    inbox, brief = Inbox("billing", database=url), Inbox("brief", window="1ms")
    with inbox.transaction() as connection:
        inbox.first_many(connection, range(5))
        brief.first_many(connection, range(25))
    return inbox


def test_the_schema_is_printed_without_a_server(dupeproof):
    printed = dupeproof("schema", "mysql://localhost/shop").out
    assert "CREATE TABLE IF NOT EXISTS dupeproof_inbox" in printed
    assert "CREATE TABLE IF NOT EXISTS dupeproof_outbox" in printed


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tables_are_made_looked_after_and_purged(dupeproof, mariadb_url, scheme):
    url = mariadb_url.replace("mysql", scheme, 1)
    for command in (["purge", url], ["windows", "list", url]):
        ran = dupeproof(*command)
        assert (ran.code, "dupeproof schema URL --apply" in ran.err) == (2, True)
    for _ in range(2):
        ran = dupeproof("schema", url, "--apply")
        assert (ran.code, "up to date" in ran.out, ":***@" in ran.out) == (0, True, True)
    inbox = fill(url)
    with inbox.transaction() as connection:
        assert not any(inbox.first_many(connection, range(5)))
        tables = {name for (name,) in connection.exec_driver_sql("SHOW TABLES")}
    assert {"dupeproof_inbox", "dupeproof_windows", "dupeproof_outbox", "dupeproof_outbox_dead"} <= tables
    facts = dupeproof("purge", url, "--batch", 10, "--json").json
    assert (facts["removed"], facts["batches"], facts["expired"]) == (25, 3, 0)
    assert dupeproof("windows", "set", url, "billing", "4h").code == 0
    listed = dupeproof("windows", "list", url, "--json").json["billing"]
    assert (listed["window"], listed["messages"], listed["duplicates"]) == (14_400.0, 5, 5)


async def test_purgers_take_such_a_url(dupeproof, mariadb_url):
    dupeproof("schema", mariadb_url, "--apply")
    fill(mariadb_url)
    purger = Purger(mariadb_url, batch=10)
    assert purger.run_once().removed == 25
    purger.stop()
    fill(mariadb_url)
    purger = AsyncPurger(mariadb_url, batch=10)
    assert (await purger.run_once()).removed == 25
    await purger.stop()


@pytest.mark.parametrize(
    "words",
    [["stats"], ["show", "k"], ["forget", "k"], ["resolve", "k", "--no-result"]],
    ids=lambda words: words[0],
)
def test_commands_about_records_say_that_there_are_none(dupeproof, words):
    ran = dupeproof(words[0], "mysql://app:secret@127.0.0.1:1/shop", *words[1:])
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ELSEWHERE in ran.err
    assert "secret" not in ran.err


@pytest.mark.parametrize(
    "words", [["purge"], ["windows", "list"], ["schema", "--apply"]], ids=lambda words: words[0]
)
def test_a_server_that_is_down_is_one_line(dupeproof, words):
    ran = dupeproof(*words, "mysql://app:secret@127.0.0.1:1/shop")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "cannot be reached" in ran.err
    assert "secret" not in ran.err
