-- Messages a consumer group has taken, each written in the transaction of its own work. The columns after the times are
-- NULL, and take no room, until the message comes again: how often, how often after its window was over, and the
-- milliseconds between the first time and another one.
CREATE TABLE dupeproof_inbox (
    key            uuid        NOT NULL PRIMARY KEY,
    seen_at        timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    consumer_group text,
    again          bigint,
    late           bigint,
    longest        bigint
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX dupeproof_inbox_expiry ON dupeproof_inbox (expires_at);
CREATE INDEX dupeproof_inbox_again ON dupeproof_inbox (consumer_group) WHERE consumer_group IS NOT NULL;

-- The same of messages that were purged, added up. What the buckets are, core/lateness.py knows.
CREATE TABLE dupeproof_lateness (
    consumer_group text     NOT NULL,
    bucket         smallint NOT NULL,
    messages       bigint   NOT NULL,
    duplicates     bigint   NOT NULL,
    late           bigint   NOT NULL,
    longest        bigint   NOT NULL,
    PRIMARY KEY (consumer_group, bucket)
);

-- Windows of groups where they are not what the code says, changeable while consumers run.
CREATE TABLE dupeproof_windows (
    consumer_group text   NOT NULL PRIMARY KEY,
    milliseconds   bigint NOT NULL
);
