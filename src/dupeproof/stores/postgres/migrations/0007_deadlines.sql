-- A statement whose caller has given up must not take effect. It may reach the server late, after a freeze or from the
-- queue of a pooler, or wait for a lock: no timeout of the session's counts all of that. So those that take something
-- for their caller bring the moment until which he waits, by the server's clock, and ask here when all is written.
CREATE FUNCTION dupeproof_in_time_v1(deadline timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF clock_timestamp() > deadline THEN
        RAISE query_canceled USING MESSAGE = 'dupeproof: too late, the caller has given up';
    END IF;
    RETURN true;
END $$;
