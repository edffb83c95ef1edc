-- One row per producer of numbered messages: epoch, the lowest number still told apart, and a bitmap from there on.
CREATE TABLE dupeproof_sequences (
    key   uuid   NOT NULL PRIMARY KEY,
    epoch bigint NOT NULL,
    floor bigint NOT NULL,
    seen  bytea  NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
