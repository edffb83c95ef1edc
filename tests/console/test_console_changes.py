"""Changing things: with the token, confirmed, once, and written down; without any of these nothing happens."""

import logging
import re

import pytest
from console_data import EVIL, TOKEN

from dupeproof import AsyncOnce, ConfigError
from dupeproof.console import ConsoleApp
from dupeproof.keys.names import key_digest
from dupeproof.outbox.sources import open_source

FORGET = {"namespace": "default", "key": "done", "action": "forget"}


async def state(url, key):
    async with AsyncOnce(url) as once:
        entry = await once.get(key)
        return None if entry is None else entry.state


@pytest.mark.parametrize(
    ("action", "key", "after"),
    [
        ("release", "held", None),
        ("release", "dead", None),
        ("resolve", "held", "done"),
        ("resolve", "failed", "done"),
        ("forget", "done", None),
        ("forget", "marked", None),
        ("forget", "running", None),
    ],
)
async def test_a_confirmed_change_is_made_once_and_written_down(visit, url, caplog, action, key, after):
    caplog.set_level(logging.INFO, "dupeproof.audit")
    visitor = visit()
    await visitor.sign_in()
    fields = {"namespace": "default", "key": key, "action": action, "result": "17", "window": "1h"}
    confirmed = await visitor.asked("/keys/confirm", **fields)
    before = await state(url, key)
    assert before is not None  # asking changes nothing
    answer = await visitor.post("/keys/change", **confirmed)
    assert f"{action.title()}: done" in answer.text
    assert await state(url, key) == after
    digest = key_digest("default")(key).hex()[:12]
    lines = [record.getMessage() for record in caplog.records if digest in record.getMessage()]
    assert [line.rpartition(": ")[2] for line in lines] == ["begins", "done"]
    assert all(re.match(rf"127\.0\.0\.1 session [0-9a-f]{{8}}: {action} {digest}: ", line) for line in lines)
    assert digest in (await visitor.get("/audit")).text
    again = await visitor.post("/keys/change", **confirmed)
    assert (again.status_code, "has been used before" in again.text) == (403, True)


async def test_a_key_that_is_being_worked_on_is_not_resolved(visit, url):
    visitor = visit()
    await visitor.sign_in()
    found = await visitor.post("/keys", namespace="default", key="running")
    assert 'value="resolve"' not in found.text  # it is not even offered
    fields = {"namespace": "default", "key": "running", "action": "resolve"}
    answer = await visitor.post("/keys/change", **await visitor.asked("/keys/confirm", **fields))
    assert "Resolve: refused: the key is being worked on" in answer.text
    assert await state(url, "running") == "running"


@pytest.mark.parametrize(("action", "backlog"), [("retry", 1), ("drop", 0)])
async def test_a_dead_message_is_put_back_or_given_up(visit, url, action, backlog):
    source = open_source(url)
    [message] = source.dead(1)
    visitor = visit()
    await visitor.sign_in()
    confirmed = await visitor.asked("/outbox/confirm", id=message.id, action=action)
    assert source.status().dead == 1
    assert f"{action.title()}: done" in (await visitor.post("/outbox/change", **confirmed)).text
    assert (source.status().dead, source.status().backlog) == (0, backlog)
    source.close()


async def test_what_was_confirmed_is_good_for_nothing_else(visit, url):
    visitor = visit()
    await visitor.sign_in()
    confirmed = await visitor.asked("/keys/confirm", **FORGET)
    for other in ({"key": "held"}, {"action": "release"}, {"namespace": "other"}, {"result": "1"}):
        answer = await visitor.post("/keys/change", **confirmed | other)
        assert (answer.status_code, "issued for something else" in answer.text) == (403, True)
    stranger = visit(visitor.app)
    await stranger.sign_in()
    assert (await stranger.post("/keys/change", **confirmed)).status_code == 403
    assert await state(url, "done") == "done"


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "ä" * 16])
async def test_a_wrong_token_opens_nothing(visit, url, token):
    visitor = visit()
    answer = await visitor.sign_in(token)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    for path in ("/keys/confirm", "/keys/change"):
        refused = await visitor.post(path, **FORGET, confirmation="x")
        assert (refused.status_code, "Sign in with the console" in refused.text) == (403, True)
    assert await state(url, "done") == "done"
    assert "refused: wrong token" in (await visitor.get("/audit")).text


async def test_without_a_token_it_is_read_only_for_everyone(visit, url):
    visitor = visit(token=None)
    assert (await visitor.sign_in("")).status_code == 403
    refused = await visitor.post("/keys/confirm", **FORGET)
    assert (refused.status_code, "read-only" in refused.text) == (403, True)
    assert "<button name=" not in (await visitor.get("/outbox")).text
    assert await state(url, "done") == "done"


async def test_a_forged_cookie_is_no_session(visit, url):
    visitor, other = visit(), visit(token="another-console's-token")
    await visitor.sign_in()
    [(name, good)] = visitor.client.cookies.items()
    await other.sign_in("another-console's-token")
    [foreign] = other.client.cookies.values()
    for forged in (good[:-2] + "xx", "", "dt1.default.x.y", foreign):
        visitor.client.cookies = {name: forged}
        assert (await visitor.post("/keys/confirm", **FORGET)).status_code == 403
    visitor.client.cookies = {name: good}
    assert (await visitor.post("/keys/confirm", **FORGET)).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", None, "http://127.0.0.1.evil.example", "http://127.0.0.1:81"]
)
async def test_a_form_of_another_site_does_nothing(visit, url, origin):
    visitor = visit()
    await visitor.sign_in()
    confirmed = await visitor.asked("/keys/confirm", **FORGET)
    for path in ("/keys", "/keys/confirm", "/keys/change", "/sign-in", "/sign-out"):
        answer = await visitor.post(path, origin=origin, **confirmed)
        assert (answer.status_code, "from another site" in answer.text) == (403, True)
    assert await state(url, "done") == "done"
    assert "done" in (await visitor.post("/keys/change", **confirmed)).text  # it was the origin, nothing else
    assert await state(url, "done") is None


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(visit):
    visitor = visit()
    visitor.client.follow_redirects = False
    answer = await visitor.sign_in()
    attributes = answer.headers["set-cookie"].lower()
    assert "httponly" in attributes
    assert "samesite=strict" in attributes
    assert TOKEN not in attributes


async def test_another_name_for_this_address_reads_nothing(visit):
    visitor = visit(hosts=("127.0.0.1", "localhost"))
    for host, status in {"rebound.example": 403, "127.0.0.1:8642": 200, "localhost": 200, "": 403}.items():
        assert (await visitor.client.get("/", headers={"Host": host})).status_code == status


async def test_names_it_may_be_called_by_are_a_list_in_any_case(visit):
    visitor = visit(hosts=["Ops.Example.com"])
    assert (await visitor.client.get("/", headers={"Host": "ops.example.COM"})).status_code == 200
    with pytest.raises(ConfigError, match=r"hosts=\['ops.example.com'\]"):
        visit(hosts="ops.example.com")


async def test_markup_in_a_key_a_topic_or_an_error_stays_text(visit):
    visitor = visit(show_results=True)
    await visitor.sign_in()
    for answer in (await visitor.post("/keys", namespace="default", key=EVIL), await visitor.get("/outbox")):
        assert "&lt;script&gt;" in answer.text
        assert "<script>" not in answer.text
        assert "<img" not in answer.text
    refused = await visitor.post("/keys", namespace=EVIL, key="k")
    assert (refused.status_code, "<img" in refused.text) == (400, False)


async def test_every_answer_forbids_scripts_of_others_frames_and_copies(visit):
    visitor = visit()
    for answer in (await visitor.get("/"), await visitor.get("/static/console.js"), await visitor.get("/nowhere"),
                   await visitor.post("/keys", origin="null")):  # fmt: skip
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "[::1"},
        {"Host": ""},
        {"Origin": "http://["},
        {"Host": "", "Origin": ""},
        {"Host": "127.0.0.1:x"},
    ],
)
async def test_headers_that_cannot_be_read_are_refused_and_not_a_fault(visit, url, headers):
    visitor = visit(hosts=("127.0.0.1",))
    await visitor.sign_in()
    sent = {"Origin": "http://127.0.0.1"} | headers
    answer = await visitor.client.post("/keys/confirm", data=FORGET, headers=sent)
    assert answer.status_code == 403
    anywhere = visit()
    await anywhere.sign_in()
    answer = await anywhere.client.post("/keys/confirm", data=FORGET, headers=sent)
    assert answer.status_code == 403


async def test_bytes_that_are_no_text_are_not_another_key(visit, url):
    async with AsyncOnce(url) as once:
        await once.seen("\ufffd")
    answer = await visit().client.post(
        "/keys",
        content=b"namespace=default&key=%FF",
        headers={"Origin": "http://127.0.0.1", "Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (answer.status_code, "not a form" in answer.text) == (400, True)


async def test_an_id_with_a_line_break_writes_one_line_of_the_audit(visit, caplog):
    caplog.set_level(logging.INFO, "dupeproof.audit")
    visitor = visit()
    await visitor.sign_in()
    asked = await visitor.asked("/outbox/confirm", id="x\n127.0.0.1: forget all: done", action="drop")
    await visitor.post("/outbox/change", **asked)
    lines = [record.getMessage() for record in caplog.records if " drop " in record.getMessage()]
    assert len(lines) == 2
    assert all("\n" not in line and "x\\n127" in line for line in lines)


async def test_where_there_is_no_outbox_its_messages_cannot_be_changed(visit):
    visitor = visit(ConsoleApp("memory://no-outbox", token=TOKEN))
    await visitor.sign_in()
    for path in ("/outbox/confirm", "/outbox/change"):
        answer = await visitor.post(path, id="x", action="drop", confirmation="x")
        assert (answer.status_code, "no outbox here" in answer.text) == (400, True)
    assert "drop" not in (await visitor.get("/audit")).text
