-- token tells which call wrote the row last, because the count of affected rows does not: it depends on how the
-- client connected whether a row left as it was counts as one.
CREATE TABLE IF NOT EXISTS dupeproof_inbox (
    `key`      BINARY(16)  NOT NULL PRIMARY KEY,
    token      BINARY(8)   NOT NULL,
    seen_at    DATETIME(3) NOT NULL,
    expires_at DATETIME(3) NOT NULL,
    KEY dupeproof_inbox_expiry (expires_at)
) ENGINE = InnoDB;
