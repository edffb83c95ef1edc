"""Refused by the server or the file system: an error that says what to do, and never shows a password."""

import json
import os
import subprocess
import sys
import traceback
from urllib.parse import quote, urlsplit

import pytest

from dupeproof import Once, StoreUnavailable
from support.flavors import both_flavors, open_once

SECRET = "s3cret-w0rd"


def refusal(flavor, url):
    """What the user reads: the error, and everything it was raised from."""
    with open_once(flavor, url) as once, pytest.raises(StoreUnavailable) as caught:
        once.run("key", int)
    return str(caught.value), "".join(traceback.format_exception(caught.value))


def with_password(url, password):
    parts = urlsplit(url)
    user = parts.username or ""
    return parts._replace(netloc=f"{user}:{quote(password)}@{parts.hostname}:{parts.port}").geturl()


@both_flavors
def test_a_wrong_password_for_redis_is_named_and_not_shown(own_redis, flavor):
    server = own_redis(options={"requirepass": "the-right-one"})
    text, whole = refusal(flavor, with_password(server.url, SECRET))
    assert "password" in text
    assert SECRET not in whole
    nothing, _ = refusal(flavor, f"redis://127.0.0.1:{server.port}/0")
    assert "password" in nothing


@both_flavors
def test_a_wrong_password_for_postgresql_is_named_and_not_shown(postgres_url, flavor):
    text, whole = refusal(flavor, with_password(postgres_url, SECRET))
    assert "password" in text
    assert SECRET not in whole


@both_flavors
def test_a_database_that_is_not_there_is_named(postgres_url, flavor):
    text, _ = refusal(flavor, urlsplit(postgres_url)._replace(path="/nowhere").geturl())
    assert "no such database" in text


@both_flavors
def test_a_user_who_may_not_create_tables_is_sent_to_the_schema_command(own_postgres, flavor):
    server = own_postgres()  # PostgreSQL 15 and later give nobody but the owner the right to create
    server.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    url = server.create_role("guest", password=SECRET)
    text, whole = refusal(flavor, url)
    assert "dupeproof schema" in text
    assert SECRET not in whole
    with Once(server.url) as owner:
        owner.check()
    text, _ = refusal(flavor, url)  # the tables are there now, and are not theirs
    assert "dupeproof schema" in text or "write" in text
    server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guest")
    with open_once(flavor, url) as once:
        assert once.run("key", lambda: "allowed") == "allowed"


AS_NOBODY = """
import json, os, sys
url, uid = sys.argv[1], int(sys.argv[2])
from dupeproof import Once, StoreUnavailable
import dupeproof.stores.sqlite
if uid:
    os.setgid(uid)
    os.setuid(uid)
said = {}
for verb in ("run", "seen"):
    try:
        once = Once(url)
        said[verb] = once.run("key", int) if verb == "run" else once.seen("id")
    except StoreUnavailable as error:
        said[verb] = str(error)
print(json.dumps(said))
"""


def said_by_nobody(url):
    """What somebody with no special rights is told; root may write anything, so it becomes nobody first."""
    uid = 65534 if os.geteuid() == 0 else 0
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, url, str(uid)], stdout=subprocess.PIPE, timeout=30, check=True
    )
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path):
    """One that others can get to: pytest's own temporary folders are closed to everyone else."""
    for parent in [tmp_path, *tmp_path.parents][:3]:
        parent.chmod(0o755)
    return tmp_path


def test_a_folder_that_cannot_be_written_is_named(folder):
    folder.chmod(0o555)
    said = said_by_nobody(f"sqlite:///{folder}/dedup.db")
    folder.chmod(0o755)
    assert all("its folder must exist and be writable" in text for text in said.values())


def test_a_file_that_cannot_be_written_is_named(folder):
    with Once(f"sqlite:///{folder}/dedup.db") as once:
        once.run("other", int)
    (folder / "dedup.db").chmod(0o444)
    folder.chmod(0o555)
    said = said_by_nobody(f"sqlite:///{folder}/dedup.db")
    folder.chmod(0o755)
    assert all("writable" in text for text in said.values()), said
    assert list(folder.iterdir()) == [folder / "dedup.db"]


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "dedup.db").write_text("a letter to a friend, which is not to be overwritten " * 100)
    text, _ = refusal("sync", f"sqlite:///{tmp_path}/dedup.db")
    assert "not an SQLite database" in text
    assert (tmp_path / "dedup.db").read_text().startswith("a letter")
