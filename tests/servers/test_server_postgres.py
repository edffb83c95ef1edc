"""A PostgreSQL of one's own: durable, with a password that counts, and fresh databases."""

import psycopg
import pytest

from dupeproof_lab.servers import ServerFailed, warden
from dupeproof_lab.servers.postgres import run_sql


def test_it_runs_with_the_settings_that_matter(own_postgres):
    server = own_postgres(settings={"lock_timeout": "7s"})
    with psycopg.connect(server.url) as connection:

        def setting(name):
            return connection.execute("SELECT current_setting(%s)", [name]).fetchone()[0]

        assert setting("fsync") == setting("synchronous_commit") == setting("full_page_writes") == "on"
        assert setting("lock_timeout") == "7s"
        assert setting("server_encoding") == "UTF8"
        assert int(setting("max_connections")) >= 200
        connection.execute("CREATE EXTENSION pg_stat_statements")
        connection.execute("SELECT count(*) FROM pg_stat_statements")
    assert server.version[0].isdigit()


def test_a_kill_and_a_restart_keep_port_and_data(own_postgres):
    server = own_postgres()
    port = server.port
    server.sql("CREATE TABLE kept AS SELECT 1 AS id")
    processes = warden.tree(server.pid)
    assert len(processes) > 1
    server.kill()
    assert not any(map(warden.running, processes))
    server.start()
    assert server.sql("SELECT id FROM kept") == "1"
    server.restart()
    assert server.sql("SELECT id FROM kept") == "1"
    assert server.port == port


def test_a_restart_does_not_wait_for_clients_to_leave(own_postgres):
    server = own_postgres()
    with psycopg.connect(server.url) as connection:
        connection.execute("SELECT 1")
        server.restart()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_a_paused_server_does_not_answer_until_resumed(own_postgres):
    server = own_postgres()
    server.pause()
    assert not server.ready()
    server.resume()
    assert server.ready()


def test_a_wrong_password_is_refused(own_postgres):
    user, _, rest = own_postgres().url.removeprefix("postgresql://").partition(":")
    wrong = f"postgresql://{user}:wrong@{rest.partition('@')[2]}"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_a_role_is_no_superuser(own_postgres):
    server = own_postgres()
    database = server.create_database()
    url = server.create_role("guest", password="a b'c", database=database)
    assert run_sql(url, "SELECT current_user") == "guest"
    with pytest.raises(ServerFailed, match="permission denied"):
        run_sql(url, "CREATE DATABASE more")
    server.drop_database(database)
    with pytest.raises(ServerFailed, match="does not exist"):
        run_sql(database, "SELECT 1")


def test_stopping_after_a_kill_leaves_nothing(own_postgres):
    server = own_postgres()
    home = server.home
    server.kill()
    server.stop()
    assert not home.exists()
