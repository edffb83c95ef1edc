-- How far a consumer group is in a partition, written in the transaction of the effect; and who may say so.
CREATE TABLE dupeproof_offsets (
    consumer_group text   NOT NULL,
    topic          text   NOT NULL,
    partition_id   int    NOT NULL,
    next_offset    bigint NOT NULL,
    owner          text   NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_id)
) WITH (fillfactor = 50);
