-- The newest version that each entity of a consumer group has got: one row for an entity, however many messages tell of it.
-- The version is written as bytes in the order of the versions, with the digest of its message behind it. In the answer
-- stands what the last call was told.
CREATE TABLE dupeproof_entities (
    entity     uuid        NOT NULL PRIMARY KEY,
    kind       text        NOT NULL,
    version    bytea       NOT NULL,
    answer     text        NOT NULL,
    changed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX dupeproof_entities_expiry ON dupeproof_entities (expires_at);
