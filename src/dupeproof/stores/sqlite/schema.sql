CREATE TABLE IF NOT EXISTS dupeproof_records (
    key         BLOB    NOT NULL PRIMARY KEY,
    state       TEXT    NOT NULL,
    token       BLOB    NOT NULL,
    attempt     INTEGER NOT NULL,
    fingerprint BLOB    NOT NULL,
    namespace   TEXT    NOT NULL,
    hold        INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    purge_from  INTEGER NOT NULL, -- never later than expires_at; a finish leaves it alone, and with it the index
    codec       TEXT    NOT NULL,
    error       TEXT    NOT NULL,
    result      BLOB    NOT NULL,
    window_ms   INTEGER NOT NULL, -- the window of its guard
    took_over   INTEGER NOT NULL,
    name        TEXT    NOT NULL, -- of the guarded function
    kept_key    TEXT    NOT NULL
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS dupeproof_records_waiting ON dupeproof_records (created_at) WHERE purge_from = 0;

CREATE INDEX IF NOT EXISTS dupeproof_records_purge ON dupeproof_records (purge_from) WHERE purge_from > 0;

CREATE TABLE IF NOT EXISTS dupeproof_marks (
    key        BLOB    NOT NULL PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    token      BLOB    NOT NULL,
    meta       BLOB    NOT NULL
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS dupeproof_marks_expiry ON dupeproof_marks (expires_at);
