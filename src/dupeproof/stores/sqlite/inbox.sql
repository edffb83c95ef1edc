CREATE TABLE IF NOT EXISTS dupeproof_inbox (
    key            BLOB    NOT NULL PRIMARY KEY,
    seen_at        INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    consumer_group TEXT,
    again          INTEGER,
    late           INTEGER,
    longest        INTEGER
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS dupeproof_inbox_expiry ON dupeproof_inbox (expires_at);

CREATE INDEX IF NOT EXISTS dupeproof_inbox_again ON dupeproof_inbox (consumer_group) WHERE consumer_group IS NOT NULL;

CREATE TABLE IF NOT EXISTS dupeproof_lateness (
    consumer_group TEXT    NOT NULL,
    bucket         INTEGER NOT NULL,
    messages       INTEGER NOT NULL,
    duplicates     INTEGER NOT NULL,
    late           INTEGER NOT NULL,
    longest        INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, bucket)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS dupeproof_windows (
    consumer_group TEXT    NOT NULL PRIMARY KEY,
    milliseconds   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS dupeproof_attempts (
    key      BLOB    NOT NULL PRIMARY KEY,
    attempts INTEGER NOT NULL,
    begun_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS dupeproof_offsets (
    consumer_group TEXT    NOT NULL,
    topic          TEXT    NOT NULL,
    partition_id   INTEGER NOT NULL,
    next_offset    INTEGER NOT NULL,
    owner          TEXT    NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS dupeproof_topics (
    consumer_group TEXT    NOT NULL,
    topic          TEXT    NOT NULL,
    partition_id   INTEGER NOT NULL,
    topic_id       TEXT    NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS dupeproof_entities (
    entity     BLOB    NOT NULL PRIMARY KEY,
    kind       TEXT    NOT NULL,
    version    BLOB    NOT NULL,
    answer     TEXT    NOT NULL,
    changed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS dupeproof_entities_expiry ON dupeproof_entities (expires_at);
