CREATE TABLE IF NOT EXISTS dupeproof_sequences (
    key   BLOB    NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL,
    floor INTEGER NOT NULL,
    seen  BLOB    NOT NULL
) WITHOUT ROWID;
