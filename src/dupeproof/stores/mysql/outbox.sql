-- See the outbox of PostgreSQL for what the tables are for, and for why the order per key holds. Times are milliseconds.
CREATE TABLE IF NOT EXISTS dupeproof_outbox (
    seq           BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    shard          SMALLINT      NOT NULL,
    created_at    BIGINT        NOT NULL,
    not_before    BIGINT,
    id            VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    aggregatetype VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    aggregateid   VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    type          VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    payload       LONGBLOB      NOT NULL,
    headers       MEDIUMTEXT    CHARACTER SET utf8mb4,
    INDEX dupeproof_outbox_shard (shard, seq),
    INDEX dupeproof_outbox_later (shard, not_before, seq)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_outbox_shards (
    shard        SMALLINT    NOT NULL PRIMARY KEY,
    token       BINARY(8),
    lease_until BIGINT      NOT NULL DEFAULT 0,
    sent        BIGINT      NOT NULL DEFAULT 0,
    taken_over  BIGINT      NOT NULL DEFAULT 0
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_outbox_hands (
    token    BINARY(8)  NOT NULL PRIMARY KEY,
    seqs     MEDIUMTEXT CHARACTER SET ascii NOT NULL,
    taken_at BIGINT     NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_outbox_failing (
    seq      BIGINT        NOT NULL PRIMARY KEY,
    shard     SMALLINT      NOT NULL,
    `key`    VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    attempts INT           NOT NULL,
    retry_at BIGINT        NOT NULL,
    error    TEXT          CHARACTER SET utf8mb4 NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_outbox_dead (
    seq           BIGINT        NOT NULL PRIMARY KEY,
    shard          SMALLINT      NOT NULL,
    created_at    BIGINT        NOT NULL,
    not_before    BIGINT,
    id            VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    aggregatetype VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    aggregateid   VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    type          VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    payload       LONGBLOB      NOT NULL,
    headers       MEDIUMTEXT    CHARACTER SET utf8mb4,
    died_at       BIGINT        NOT NULL,
    attempts      INT           NOT NULL,
    error         TEXT          CHARACTER SET utf8mb4 NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_outbox_sent (
    seq           BIGINT        NOT NULL PRIMARY KEY,
    shard          SMALLINT      NOT NULL,
    created_at    BIGINT        NOT NULL,
    not_before    BIGINT,
    id            VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    aggregatetype VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    aggregateid   VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    type          VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    payload       LONGBLOB      NOT NULL,
    headers       MEDIUMTEXT    CHARACTER SET utf8mb4,
    sent_at       BIGINT        NOT NULL,
    purge_from    BIGINT        NOT NULL,
    INDEX dupeproof_outbox_sent_purge (purge_from)
) ENGINE = InnoDB;
