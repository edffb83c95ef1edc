CREATE TABLE IF NOT EXISTS dupeproof_inbox (
    key        BLOB    NOT NULL PRIMARY KEY,
    seen_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS dupeproof_inbox_expiry ON dupeproof_inbox (expires_at);

CREATE TABLE IF NOT EXISTS dupeproof_windows (
    consumer_group TEXT    NOT NULL PRIMARY KEY,
    milliseconds   INTEGER NOT NULL
) WITHOUT ROWID;
