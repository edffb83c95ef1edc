"""An SQLite file: is it one that several processes may share, and on a disk that keeps it."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from dupeproof.core.clock import system_clock
from dupeproof.doctor.common import judge_outbox, judge_purge, judge_waiting
from dupeproof.doctor.findings import Finding, error, note, warning
from dupeproof.errors import ConfigError
from dupeproof.stores.sqlite.connection import NAMES

MOUNTS = Path("/proc/self/mountinfo")
NETWORKED = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
    ]
)
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""As the kernel writes a blank in a path."""
_EXPIRED = """
    SELECT count(*), :now - min(expires_at) FROM (
        SELECT expires_at FROM dupeproof_marks WHERE expires_at <= :now
        UNION ALL SELECT expires_at FROM dupeproof_inbox WHERE expires_at <= :now
        UNION ALL SELECT expires_at FROM dupeproof_entities WHERE expires_at <= :now
        UNION ALL SELECT expires_at FROM dupeproof_records
        WHERE purge_from > 0 AND purge_from <= :now AND expires_at <= :now)
"""
_OUTBOX = """
    SELECT count(*), :now - min(coalesce(not_before, created_at)), (SELECT count(*) FROM dupeproof_outbox_dead),
           (SELECT max(0, :now - max(lease_until)) FROM dupeproof_outbox_shards WHERE lease_until > 0)
    FROM dupeproof_outbox WHERE coalesce(not_before, created_at) <= :now
"""
_WAITING = """
    SELECT coalesce(sum(state <> 'dead'), 0), :now - min(CASE WHEN state <> 'dead' THEN lease_until END),
           coalesce(sum(state = 'dead'), 0)
    FROM dupeproof_records
    WHERE purge_from = 0 AND (state = 'dead' OR (state = 'running' AND hold AND lease_until <= :now))
"""


class Facts(Struct, frozen=True, kw_only=True):
    version: str
    journal: str
    file_system: str | None
    synchronous: str
    """As the URL says: it is a property of connections, not of the file."""
    missing: list[str]
    expired: int
    oldest_expired: float | None
    backlog: int
    oldest_message: float | None
    dead_messages: int
    relay_seen: float | None
    """Seconds since a relay had messages in its hands."""
    held: int
    oldest_held: float | None
    dead_keys: int
    windows: dict[str, int]
    damage: str | None


def look(path: Path, synchronous: str, mounts: Path = MOUNTS) -> Facts:
    """Read only: looking neither makes a file nor changes its mode."""
    if not path.exists():
        raise ConfigError(f"there is no file {path}")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _facts(connection, synchronous, file_system(path, mounts))
    except sqlite3.DatabaseError as exc:
        raise ConfigError(f"{path} cannot be read as an SQLite database: {exc}") from exc


def judge(facts: Facts) -> Iterator[Finding]:
    if facts.file_system in NETWORKED:
        yield error(
            "network-file-system",
            f"the file is on {facts.file_system}",
            "SQLite's locks and its shared memory do not work between machines, so two of them can both win",
            "put it on a local disk, or use PostgreSQL or Redis where several machines take part",
        )
    if facts.journal != "wal" and not facts.missing:
        yield warning(
            "journal",
            f"the journal mode is {facts.journal}, not wal",
            "somebody has changed it; readers and the writer now block each other",
            "open it with dupeproof once, which sets it back, and see who runs PRAGMA journal_mode",
        )
    if facts.synchronous == "normal":
        yield note(
            "synchronous",
            "the URL says synchronous=normal",
            "if the machine itself dies, not only the process, the last claims are forgotten",
            "leave it away where that counts; full is the default",
        )
    if facts.missing == NAMES:
        yield note(
            "no-tables",
            "there are no tables of dupeproof yet",
            "they are made on first use",
            "dupeproof schema URL --apply",
        )
    elif facts.missing:
        yield warning(
            "old-tables",
            f"the tables are of an older version; missing: {', '.join(facts.missing)}",
            "they are made on first use, by a process that may write to the file",
            "dupeproof schema URL --apply",
        )
    if facts.damage is not None:
        yield error(
            "damaged",
            f"PRAGMA quick_check says: {facts.damage}",
            "what was remembered may be unreadable or wrong",
            "restore the file from a backup, or start a new one and expect duplicates within the window",
        )
    yield from judge_purge(facts.expired, facts.oldest_expired)
    yield from judge_waiting(facts.held, facts.oldest_held, facts.dead_keys)
    yield from judge_outbox(facts.backlog, facts.oldest_message, facts.dead_messages, facts.relay_seen)


def file_system(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The kind of the file system the file is on, by the longest mount point above it; None if it is unknown."""
    if not mounts.exists():
        return None
    folder = path.absolute().resolve().parent
    best: tuple[int, str | None] = (-1, None)
    for line in mounts.read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4]))
        if folder.is_relative_to(point) and len(point.parts) > best[0]:
            best = (len(point.parts), after.split(" ")[0])
    return best[1]


def _facts(connection: sqlite3.Connection, synchronous: str, kind: str | None) -> Facts:
    checked = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    missing = [name for name in NAMES if name not in there]
    now = {"now": system_clock()}
    readable = not missing and checked == "ok"
    expired, oldest = (0, None) if not readable else connection.execute(_EXPIRED, now).fetchone()
    backlog, waited, dead, seen = (
        (0, None, 0, None) if not readable else connection.execute(_OUTBOX, now).fetchone()
    )
    held, held_for, dead_keys = (0, None, 0) if not readable else connection.execute(_WAITING, now).fetchone()
    windows = (
        []
        if missing
        else connection.execute("SELECT consumer_group, milliseconds FROM dupeproof_windows").fetchall()
    )
    return Facts(
        version=sqlite3.sqlite_version,
        journal=connection.execute("PRAGMA journal_mode").fetchone()[0],
        file_system=kind,
        synchronous=synchronous,
        missing=missing,
        expired=expired,
        oldest_expired=_seconds(oldest),
        backlog=backlog,
        oldest_message=_seconds(waited),
        dead_messages=dead,
        relay_seen=_seconds(seen),
        held=held,
        oldest_held=_seconds(held_for),
        dead_keys=dead_keys,
        windows=dict(windows),
        damage=None if checked == "ok" else checked,
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1_000
