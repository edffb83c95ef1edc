"""A MariaDB of one's own: durable, with a password that counts, and fresh databases."""

import pytest

from dupeproof_lab.servers import ServerFailed
from dupeproof_lab.servers.mariadb import drop_database, run_mariadb


def test_it_runs_with_the_settings_that_matter(own_mariadb):
    server = own_mariadb(settings={"innodb_lock_wait_timeout": 7})
    assert server.sql("SELECT @@innodb_flush_log_at_trx_commit, @@innodb_lock_wait_timeout") == "1\t7"
    assert server.sql("SELECT @@bind_address, @@character_set_server") == "127.0.0.1\tutf8mb4"
    assert server.version[0].isdigit()
    wrong = server.url.replace(server._password, "wrong")
    with pytest.raises(ServerFailed, match="Access denied"):
        run_mariadb(wrong, "SELECT 1")
    for root in ("mysql://root:@", "mysql://anybody:@"):
        with pytest.raises(ServerFailed, match=r"denied|not allowed"):
            run_mariadb(f"{root}127.0.0.1:{server.port}/mysql", "SELECT 1")


def test_a_kill_and_a_restart_keep_port_and_data(own_mariadb):
    server = own_mariadb()
    port, database = server.port, server.create_database()
    run_mariadb(database, "CREATE TABLE kept AS SELECT 1 AS id")
    server.kill()
    server.start()
    assert run_mariadb(database, "SELECT id FROM kept") == "1"
    server.restart()
    assert run_mariadb(database, "SELECT id FROM kept") == "1"
    assert server.port == port
    drop_database(server.url, database)
    with pytest.raises(ServerFailed, match="Unknown database"):
        run_mariadb(database, "SELECT 1")
    home = server.home
    server.stop()
    assert not home.exists()
