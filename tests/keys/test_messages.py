"""Messages bring their ids in many shapes; one without an id is the caller's explicit choice."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dupeproof.errors import ConfigError, KeyInvalid, KeyMissing
from dupeproof.keys import content_id, from_amqp, from_cloudevent, from_headers, from_kafka, kafka_position


class KafkaMessage:
    """Shaped like confluent_kafka.Message: everything is a method."""

    def __init__(self, headers=None, offset=7):
        self._headers, self._offset = headers, offset

    def headers(self):
        return self._headers

    def topic(self):
        return "orders"

    def partition(self):
        return 0

    def offset(self):
        return self._offset


@pytest.mark.parametrize(
    "headers",
    [
        {"Idempotency-Key": "k-1"},
        {"idempotency-key": b"k-1", "other": "x"},
        [(b"idempotency-key", b"k-1")],
        (("IDEMPOTENCY-KEY", "k-1"), ("Idempotency-Key", "k-1")),
        [("Idempotency-Key", ""), ("Idempotency-Key", "k-1")],
        {b"Idempotency-Key": memoryview(b"k-1"), 7: "x"},
    ],
)
def test_a_header_is_found_in_any_shape_and_case(headers):
    assert from_headers(headers) == "k-1"


def test_two_different_ids_in_one_message_are_an_error():
    with pytest.raises(KeyInvalid, match="twice") as caught:
        from_headers([("Idempotency-Key", "k-1"), ("idempotency-key", "k-2")])
    assert "k-1" not in str(caught.value)


@pytest.mark.parametrize(
    "properties",
    [
        SimpleNamespace(message_id="m-1", headers=None),
        SimpleNamespace(message_id=b"m-1"),
        {"message_id": "m-1"},
        SimpleNamespace(message_id=None, headers={"X-Id": "m-1"}),
        SimpleNamespace(message_id="", headers={"x-id": b"m-1"}),
    ],
)
def test_amqp_properties_have_a_message_id_or_a_header(properties):
    assert from_amqp(properties, header="x-id") == "m-1"


def test_an_amqp_header_is_only_used_when_named():
    with pytest.raises(KeyMissing, match="no message_id"):
        from_amqp(SimpleNamespace(message_id=None, headers={"message-id": "m-1"}))


def test_kafka_headers_are_read_from_either_client():
    assert from_kafka(KafkaMessage([("message-id", b"m-1")])) == "m-1"
    assert from_kafka(SimpleNamespace(headers=(("Message-Id", b"m-1"),))) == "m-1"
    assert from_kafka(KafkaMessage([("event", b"e-1")]), "event") == "e-1"


def test_the_position_of_a_kafka_message_is_an_id_when_asked_for():
    assert kafka_position(KafkaMessage()) == "orders:0:7"
    assert kafka_position(SimpleNamespace(topic="orders", partition=0, offset=7)) == "orders:0:7"
    for message in (KafkaMessage(offset=None), KafkaMessage(offset=-1001), object()):
        with pytest.raises(KeyMissing, match="topic, partition and offset"):
            kafka_position(message)


@pytest.mark.parametrize(
    "event",
    [
        {"source": "/shop", "id": "e-1", "type": "t"},
        SimpleNamespace(source="/shop", id="e-1"),
        {"ce-source": "/shop", "CE-ID": "e-1", "id": "not this one", "source": "nor this"},
        [("ce_source", b"/shop"), ("ce_id", b"e-1")],
        {"cloudEvents:source": "/shop", "cloudEvents:id": "e-1"},
    ],
)
def test_a_cloudevent_is_its_source_and_id(event):
    assert from_cloudevent(event) == '["/shop","e-1"]'


events = st.tuples(st.text('ab",/', min_size=1, max_size=4), st.text('ab",/', min_size=1, max_size=4))


@given(events, events)
def test_cloudevents_of_different_sources_or_ids_never_meet(one, other):
    made = [from_cloudevent({"source": source, "id": identifier}) for source, identifier in (one, other)]
    assert (made[0] == made[1]) == (one == other)


WITHOUT_ID = [
    (from_headers, {}),
    (from_headers, None),
    (from_headers, {"Idempotency-Key": ""}),
    (from_headers, [(b"idempotency-key", b"  ")]),
    (from_amqp, SimpleNamespace(message_id=None)),
    (from_amqp, SimpleNamespace()),
    (from_kafka, KafkaMessage()),
    (from_kafka, KafkaMessage([("message-id", None)])),
    (from_kafka, KafkaMessage([("message-id", b"")])),
    (from_cloudevent, {"source": "/shop"}),
    (from_cloudevent, {"source": "/shop", "id": ""}),
    (from_cloudevent, {"ce-id": "e-1", "source": "/shop"}),
    (from_cloudevent, object()),
]


@pytest.mark.parametrize(("read", "message"), WITHOUT_ID)
def test_a_missing_id_is_raised_replaced_by_the_content_or_passed_as_chosen(read, message):
    with pytest.raises(KeyMissing, match="missing='content' or 'pass'"):
        read(message)
    assert read(message, missing="pass") is None
    assert read(message, missing="content", body=b"body") == content_id(b"body")
    for nothing in (None, b"", ""):
        with pytest.raises(KeyMissing, match="body"):
            read(message, missing="content", body=nothing)


def test_an_id_that_is_there_is_taken_whatever_missing_says():
    for missing in ("raise", "content", "pass"):
        assert from_headers({"Idempotency-Key": "k-1"}, missing=missing, body=b"body") == "k-1"


def test_an_unknown_choice_is_an_error_even_when_the_id_is_there():
    with pytest.raises(ConfigError, match="'raise', 'content' or 'pass'"):
        from_headers({"Idempotency-Key": "k-1"}, missing="random")


@pytest.mark.parametrize("value", [b"\xff\xfesecret", "secret\0", ["secret"], "secret" * 999])
def test_an_id_that_cannot_be_a_key_is_refused_and_not_shown(value):
    with pytest.raises(KeyInvalid, match="header 'Idempotency-Key'") as caught:
        from_headers({"Idempotency-Key": value}, missing="pass")
    assert "secret" not in str(caught.value)
