"""A PostgreSQL that can be reached and refuses: what it is and what to do, not that it cannot be reached."""

import os
import re
import shutil
import subprocess

import psycopg
import pytest

from dupeproof import AsyncInbox, ConfigError, Inbox, StoreUnavailable
from dupeproof.filters import SequenceGuard
from dupeproof.stores import open_store
from dupeproof_lab.servers import Postgres
from support.flavors import open_once


class Encrypted(Postgres):
    """With a certificate for another name than it is reached by, and one of nobody's."""

    def prepare(self):
        super().prepare()
        program = shutil.which("openssl")  # comes with the server's package
        for name in ("server", "other"):
            key, certificate = self.home / f"{name}.key", self.home / f"{name}.crt"
            what = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=elsewhere"]
            subprocess.run(
                [program, *what, "-keyout", key, "-out", certificate], check=True, capture_output=True
            )
            key.chmod(0o600)
            if self.user is not None:
                os.chown(key, self.user, -1)
        files = {"ssl_cert_file": f"{self.home}/server.crt", "ssl_key_file": f"{self.home}/server.key"}
        self._settings.update({"ssl": "on", **files})


@pytest.fixture(scope="module")
def encrypted(postgres_server):
    with Encrypted() as server:
        yield server


async def refusals(url, kind):
    """What each way to the database says, of this kind of error."""
    for flavor in ("sync", "async"):
        with open_once(flavor, url) as once, pytest.raises(kind) as caught:
            once.seen("id")
        yield str(caught.value)
    with pytest.raises(kind) as caught, Inbox("b", database=url).transaction():
        pass
    yield str(caught.value)
    with pytest.raises(kind) as caught:
        async with AsyncInbox("b", database=url).transaction():
            pass
    yield str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("sslmode=verify-ca&sslrootcert={home}/other.crt", "certificate that cannot be trusted"),
        ("sslmode=verify-full&sslrootcert={home}/server.crt", "certificate that cannot be trusted"),
        ("sslmode=require&sslcert={home}/server.crt&sslkey={home}/other.key", "sslcert, sslkey"),
        ("options=-c%20nonsense%3D1", 'does not know an option of the URL .*"nonsense"'),
        ("options=-c%20statement_timeout%3Dsoon", '"statement_timeout"'),
    ],
)
async def test_certificates_and_settings_that_are_refused_are_named(encrypted, options, said):
    url = f"{encrypted.url}?{options.format(home=encrypted.home)}"
    async for text in refusals(url, StoreUnavailable):
        assert re.search(said, text), text
        assert "cannot be reached" not in text


async def test_a_server_without_tls_is_told_apart_from_none(postgres_url):
    async for text in refusals(f"{postgres_url}?sslmode=require", StoreUnavailable):
        assert "does not speak TLS" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("sslmode=verify-full&sslrootcert=/no/such/ca.pem", "sslrootcert=/no/such/ca.pem"),
        ("sslcert=/no/such/me.crt", "sslcert=/no/such/me.crt"),
        ("sslmode=banana", 'sslmode value: "banana"'),
        ("target_session_attrs=writer", 'target_session_attrs value: "writer"'),
        ("keepalives_idle=x", "keepalives_idle"),
    ],
)
async def test_options_that_cannot_be_used_are_errors_of_the_set_up(postgres_url, options, said):
    async for text in refusals(f"{postgres_url}?{options}", ConfigError):
        assert said in text


async def test_a_pooler_that_refuses_an_option_is_named(own_pgbouncer, postgres_url):
    url = f"{own_pgbouncer(postgres_url).url}?options=-c%20search_path%3Dapp"
    async for text in refusals(url, StoreUnavailable):
        assert "a pooler before it does not know an option" in text


async def test_a_pooler_without_transactions_is_named(own_pgbouncer, postgres_url):
    url = own_pgbouncer(postgres_url, pool_mode="statement").url
    async for text in refusals(url, StoreUnavailable):
        assert "pool_mode = transaction" in text
    open_store(postgres_url).check()
    with SequenceGuard(url) as guard, pytest.raises(StoreUnavailable, match="pool_mode = transaction"):
        guard.first("producer", 0, 1)


async def test_grants_that_are_missing_are_named(own_postgres):
    server = own_postgres()
    open_store(server.url).check()
    url = server.create_role("guest", password="guest")
    server.sql("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC")
    async for text in refusals(url, StoreUnavailable):
        assert "GRANT CONNECT" in text
    server.sql("GRANT CONNECT ON DATABASE postgres TO guest")
    with open_once("sync", url) as once:
        with pytest.raises(StoreUnavailable, match="dupeproof schema URL --grants"):
            once.seen("id")
        server.sql("REVOKE USAGE ON SCHEMA public FROM PUBLIC")
        server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guest")
        with pytest.raises(StoreUnavailable, match="USAGE"):
            once.seen("id")
        server.sql("GRANT USAGE ON SCHEMA public TO guest")
        assert once.seen("id") is False


@pytest.mark.parametrize("flavor", ["sync", "async"])
def test_a_disk_that_was_full_for_a_moment_costs_no_result(postgres_url, flavor):
    with (
        open_once(flavor, postgres_url) as once,
        psycopg.connect(postgres_url, autocommit=True) as connection,
    ):
        once.run("before", int)
        connection.execute("CREATE SEQUENCE writes")  # what it counts is not rolled back
        connection.execute(
            "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN IF nextval($$writes$$) = 1 THEN RAISE disk_full; END IF; RETURN NEW; END'"
        )
        connection.execute(
            "CREATE TRIGGER fills BEFORE UPDATE ON dupeproof_records FOR EACH ROW EXECUTE FUNCTION fill()"
        )
        assert once.run("key", lambda: "kept") == "kept"
        again = once.attempt("key", lambda: "ran again")
        assert (again.value, again.replayed) == ("kept", True)
