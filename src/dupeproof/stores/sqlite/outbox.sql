-- See the outbox of PostgreSQL for what the tables are for, and for why the order per key holds. Times are milliseconds.
CREATE TABLE IF NOT EXISTS dupeproof_outbox (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    shard          INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    not_before    INTEGER,
    id            TEXT    NOT NULL,
    aggregatetype TEXT    NOT NULL,
    aggregateid   TEXT,
    type          TEXT    NOT NULL,
    payload       BLOB    NOT NULL,
    headers       TEXT
);

CREATE INDEX IF NOT EXISTS dupeproof_outbox_shard ON dupeproof_outbox (shard, seq);

CREATE INDEX IF NOT EXISTS dupeproof_outbox_later ON dupeproof_outbox (shard, not_before, seq) WHERE shard < 0;

CREATE TABLE IF NOT EXISTS dupeproof_outbox_shards (
    shard        INTEGER PRIMARY KEY,
    token       BLOB,
    lease_until INTEGER NOT NULL DEFAULT 0,
    sent        INTEGER NOT NULL DEFAULT 0,
    taken_over  INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS dupeproof_outbox_hands (
    token    BLOB    NOT NULL PRIMARY KEY,
    seqs     TEXT    NOT NULL,
    taken_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS dupeproof_outbox_failing (
    seq      INTEGER PRIMARY KEY,
    shard     INTEGER NOT NULL,
    key      TEXT,
    attempts INTEGER NOT NULL,
    retry_at INTEGER NOT NULL,
    error    TEXT    NOT NULL
);

CREATE TABLE IF NOT EXISTS dupeproof_outbox_dead (
    seq           INTEGER PRIMARY KEY,
    shard          INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    not_before    INTEGER,
    id            TEXT    NOT NULL,
    aggregatetype TEXT    NOT NULL,
    aggregateid   TEXT,
    type          TEXT    NOT NULL,
    payload       BLOB    NOT NULL,
    headers       TEXT,
    died_at       INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    error         TEXT    NOT NULL
);

CREATE TABLE IF NOT EXISTS dupeproof_outbox_sent (
    seq           INTEGER PRIMARY KEY,
    shard          INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    not_before    INTEGER,
    id            TEXT    NOT NULL,
    aggregatetype TEXT    NOT NULL,
    aggregateid   TEXT,
    type          TEXT    NOT NULL,
    payload       BLOB    NOT NULL,
    headers       TEXT,
    sent_at       INTEGER NOT NULL,
    purge_from    INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS dupeproof_outbox_sent_purge ON dupeproof_outbox_sent (purge_from);
