-- token tells which call wrote the row last, because the count of affected rows does not: it depends on how the
-- client connected whether a row left as it was counts as one.
CREATE TABLE IF NOT EXISTS dupeproof_inbox (
    `key`      BINARY(16)  NOT NULL PRIMARY KEY,
    token      BINARY(8)   NOT NULL,
    seen_at    DATETIME(3) NOT NULL,
    expires_at DATETIME(3) NOT NULL,
    KEY dupeproof_inbox_expiry (expires_at)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_windows (
    consumer_group VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    milliseconds   BIGINT NOT NULL
) ENGINE = InnoDB;
