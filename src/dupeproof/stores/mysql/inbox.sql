-- How many rows a statement affected depends on how the client connected, for rows that are left as they are. So none
-- is: each time the message comes again is counted, which counts as 2, and a new row as 1, for every client. Which call
-- wrote the row last, the token tells.
CREATE TABLE IF NOT EXISTS dupeproof_inbox (
    `key`          BINARY(16)  NOT NULL PRIMARY KEY,
    token          BINARY(8)   NOT NULL,
    seen_at        DATETIME(3) NOT NULL,
    expires_at     DATETIME(3) NOT NULL,
    consumer_group VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    again          BIGINT,
    late           BIGINT,
    longest        BIGINT,
    KEY dupeproof_inbox_expiry (expires_at)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_lateness (
    consumer_group VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    bucket         SMALLINT NOT NULL,
    messages       BIGINT   NOT NULL,
    duplicates     BIGINT   NOT NULL,
    late           BIGINT   NOT NULL,
    longest        BIGINT   NOT NULL,
    PRIMARY KEY (consumer_group, bucket)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_windows (
    consumer_group VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    milliseconds   BIGINT NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_attempts (
    `key`    BINARY(16)  NOT NULL PRIMARY KEY,
    attempts INT         NOT NULL,
    begun_at DATETIME(3) NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_offsets (
    consumer_group VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    topic          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    partition_id   INT          NOT NULL,
    next_offset    BIGINT       NOT NULL,
    owner          VARCHAR(64)  CHARACTER SET ascii NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_topics (
    consumer_group VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    topic          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    partition_id   INT          NOT NULL,
    topic_id       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dupeproof_entities (
    entity     BINARY(16)     NOT NULL PRIMARY KEY,
    kind       VARCHAR(8)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version    VARBINARY(288) NOT NULL,
    answer     VARCHAR(9)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    changed_at DATETIME(3)    NOT NULL,
    expires_at DATETIME(3)    NOT NULL,
    KEY dupeproof_entities_expiry (expires_at)
) ENGINE = InnoDB;
