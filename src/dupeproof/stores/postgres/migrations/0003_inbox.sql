-- Messages a consumer group has taken, each written in the transaction of its own work.
CREATE TABLE dupeproof_inbox (
    key        uuid        NOT NULL PRIMARY KEY,
    seen_at    timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX dupeproof_inbox_expiry ON dupeproof_inbox (expires_at);

-- Windows of groups where they are not what the code says, changeable while consumers run.
CREATE TABLE dupeproof_windows (
    consumer_group text   NOT NULL PRIMARY KEY,
    milliseconds   bigint NOT NULL
);
