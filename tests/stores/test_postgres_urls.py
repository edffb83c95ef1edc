"""URLs of PostgreSQL as libpq takes them, wherever one is given: guards, inboxes, relays, purgers and the command."""

import subprocess
import sys
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from dupeproof import AsyncInbox, AsyncOnce, ConfigError, Inbox, Once, Outbox, Relay
from dupeproof.cleanup import Purger
from dupeproof.stores.postgres.target import target
from dupeproof.stores.urls import parse_url

FORMS = {
    "a socket by its folder": "postgresql:///{name}?host={folder}&port={port}&user={user}",
    "a socket and a user": "postgresql://{user}@/{name}?host={folder}&port={port}",
    "a socket as the host": "postgresql://{user}@{quoted}:{port}/{name}",
    "a space in an option": "postgresql://{user}:{password}@127.0.0.1:{port}/{name}?options=-c%20search_path%3Dapp",
    "a space in a name": "postgres://{user}:{password}@127.0.0.1:{port}/{name}?application_name=my%20app",
    "a plus, which is one": "postgresql://{user}:{password}@127.0.0.1:{port}/{name}?application_name=a+b",
    "two hosts": "postgresql://{user}:{password}@127.0.0.1:1,127.0.0.1:{port}/{name}",
    "two hosts and one port": "postgresql://{user}:{password}@127.0.0.2,127.0.0.1/{name}?port={port}",
    "hosts in brackets": "postgresql://{user}:{password}@[::1]:1,127.0.0.1:{port}/{name}",
    "only a writer": "postgresql://{user}:{password}@127.0.0.1:{port}/{name}?target_session_attrs=read-write",
    "a time to connect": "postgresql://{user}:{password}@127.0.0.1:{port}/{name}?connect_timeout=3&sslmode=prefer",
    "a name": "postgresql://{user}:{password}@localhost:{port}/{name}",
}


@pytest.fixture(scope="module")
def place(postgres_server, postgres_module_url):
    with psycopg.connect(postgres_module_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA app")
        [folder] = connection.execute("SELECT current_setting('unix_socket_directories')").fetchone()
    parts = urlsplit(postgres_module_url)
    return {
        "user": parts.username,
        "password": parts.password,
        "port": parts.port,
        "name": parts.path[1:],
        "folder": folder,
        "quoted": quote(folder, safe=""),
    }


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def url(request, place):
    return request.param.format(**place)


def test_a_guard_takes_it(url):
    with Once(url, namespace="sync") as once:
        once.forget("key")
        assert once.run("key", lambda: 1) == 1
        assert once.run("key", lambda: 2) == 1


async def test_an_async_guard_takes_it(url):
    async with AsyncOnce(url, namespace="async") as once:
        await once.forget("id")
        assert await once.seen("id") is False
        assert await once.seen("id") is True


async def test_inboxes_outboxes_relays_and_purgers_take_it(url):
    url += "&timeout=3s&pool=2" if "?" in url else "?timeout=3s&pool=2"
    inbox, sent = Inbox("billing", database=url), []
    with inbox.transaction() as connection:
        inbox.create_schema(connection)
        Outbox().create_schema(connection)
        assert inbox.first(connection, url) is True
        Outbox().add(connection, topic="orders", payload={"by": url})
    async with AsyncInbox("billing", database=url).transaction() as connection:
        assert await AsyncInbox("billing").first(connection, url) is False
    relay = Relay(url, publisher=sent.append)
    relay.run_once()
    relay.close()
    assert [message.json() for message in sent] == [{"by": url}]
    purger = Purger(url)
    assert purger.run_once().complete
    purger.stop()


def test_so_does_the_command(place):
    for form in ("a socket by its folder", "a space in an option", "two hosts"):
        for command in ("stats", "doctor"):
            run = [sys.executable, "-m", "dupeproof", command, FORMS[form].format(**place)]
            ran = subprocess.run(run, capture_output=True, text=True, check=False)
            assert ran.returncode in (0, 1), ran.stderr


def test_options_reach_the_server_as_they_were_meant(place):
    settings = {"a space in an option": "search_path", "a space in a name": "application_name"}
    expected = {"search_path": "app", "application_name": "my app"}
    for form, setting in settings.items():
        with Inbox("b", database=FORMS[form].format(**place)).transaction() as connection:
            assert connection.execute(f"SHOW {setting}").fetchone() == (expected[setting],)


@pytest.mark.parametrize(
    ("netloc", "hosts"),
    [
        ("a,b", [("a", ""), ("b", "")]),
        ("a:1,b", [("a", "1"), ("b", "")]),
        ("a:1,b:2", [("a", "1"), ("b", "2")]),
        ("[::1],[::2]:7", [("::1", ""), ("::2", "7")]),
        ("", [("", "")]),
        ("u:p%23w@a", [("a", "")]),
        ("u:p#w@a", [("a", "")]),
    ],
)
def test_hosts_are_told_apart(netloc, hosts):
    found = target(parse_url(f"postgresql://{netloc}/shop")).hosts.in_turn(0)
    assert [(host.host, host.port) for host in found] == hosts


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:secret@h/db?nonsense=1", "'nonsense'"),
        ("postgresql://u:secret@h/db?connect_timeout=soon", "connect_timeout"),
        ("postgresql://u:secret@a,b,c/db?port=1,2", "one port for all"),
        ("postgresql://u:secret@a:b/db", "a port is a number"),
    ],
)
def test_what_is_wrong_with_a_url_is_named(url, said):
    for opening in (lambda: Once(url), lambda: Inbox("b", database=url).transaction().__enter__()):
        with pytest.raises(ConfigError, match=said) as caught:
            opening()
        assert "secret" not in str(caught.value)
