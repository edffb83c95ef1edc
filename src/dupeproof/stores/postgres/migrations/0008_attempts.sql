-- Messages that came before and are being worked on, each written before its handler is called and removed in the
-- transaction of its effect. So what stands here when the message comes again has ended its consumers, so many times.
CREATE TABLE dupeproof_attempts (
    key      uuid        NOT NULL PRIMARY KEY,
    attempts integer     NOT NULL,
    begun_at timestamptz NOT NULL
);
