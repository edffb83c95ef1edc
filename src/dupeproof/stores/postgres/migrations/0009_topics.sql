-- Of which topic the position of a partition is one: made anew under its old name, a topic of Kafka has another id.
CREATE TABLE dupeproof_topics (
    consumer_group text NOT NULL,
    topic          text NOT NULL,
    partition_id   int  NOT NULL,
    topic_id       text NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_id)
);
