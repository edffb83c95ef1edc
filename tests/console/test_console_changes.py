"""Changing things: with the token, confirmed, once, and written down; without any of these nothing happens."""

import logging
from base64 import urlsafe_b64encode

import pytest
from console_data import EVIL, TOKEN, words

from dupeproof import AsyncOnce, ConfigError
from dupeproof.console import ConsoleApp
from dupeproof.keys.names import key_digest
from dupeproof.outbox.sources import open_source

FORGET = {"digest": key_digest("default")("done").hex(), "action": "forget"}


async def state(url, key):
    async with AsyncOnce(url) as once:
        entry = await once.get(key)
        return None if entry is None else entry.state


@pytest.mark.parametrize(
    ("action", "key", "after", "past"),
    [
        ("reopen", "held", None, "reopened"),
        ("reopen", "dead", None, "reopened"),
        ("resolve", "held", "done", "resolved"),
        ("resolve", "failed", "done", "resolved"),
        ("resolve_empty", "dead", "done", "resolved with no result"),
        ("forget", "done", None, "forgotten"),
        ("forget", "marked", None, "forgotten"),
        ("forget", "running", None, "forgotten"),
    ],
)
async def test_a_confirmed_change_is_made_once_and_written_down(visit, url, caplog, action, key, after, past):
    caplog.set_level(logging.INFO, "dupeproof.audit")
    visitor = visit()
    await visitor.sign_in()
    digest = key_digest("default")(key).hex()
    confirmed = await visitor.asked("/keys/confirm", digest=digest, action=action, result="17", window="1h")
    before = await state(url, key)
    assert before is not None  # asking changes nothing
    answer = await visitor.post("/keys/change", **confirmed)
    assert f"1 of 1 key {past}" in answer.text
    assert await state(url, key) == after
    lines = [record.getMessage() for record in caplog.records if digest[:12] in record.getMessage()]
    assert [line.rpartition(": ")[2] for line in lines] == ["begins", past]
    verb = action.partition("_")[0]
    assert all(line.startswith(f"ann: {verb} {digest[:12]}: ") for line in lines)
    assert digest[:12] in (await visitor.get("/audit")).text
    assert past in (await visitor.get(f"/keys/{digest}")).text.partition("History")[2]
    again = await visitor.post("/keys/change", **confirmed)
    assert (again.status_code, "has been used before" in again.text) == (403, True)


async def test_a_key_that_is_being_worked_on_is_not_resolved(visit, url):
    visitor = visit()
    await visitor.sign_in()
    digest = key_digest("default")("running").hex()
    found = await visitor.post("/keys", namespace="default", key="running")
    assert 'value="resolve"' not in found.text  # it is not even offered
    preview = await visitor.post("/keys/confirm", digest=digest, action="resolve", result="1")
    assert "Nothing would change" in preview.text
    assert "left as it is: it is running" in preview.text
    assert await state(url, "running") == "running"


async def test_the_confirmation_says_in_words_what_will_happen_to_which_key(visit):
    visitor = visit()
    await visitor.sign_in()
    digest = key_digest("default")("held").hex()
    reopening = words(await visitor.post("/keys/confirm", digest=digest, action="reopen"))
    assert "This call may run again:" in reopening
    assert digest[:12] in reopening
    assert "If the work did happen after all, it will happen twice" in reopening
    resolving = words(await visitor.post("/keys/confirm", digest=digest, action="resolve", result='"paid"'))
    assert 'This call counts as done and will not run again: "paid"' in resolving


async def test_a_key_that_changed_since_it_was_seen_is_left_and_told(visit, url):
    visitor = visit()
    await visitor.sign_in()
    digests = [key_digest("default")(key).hex() for key in ("held", "dead", "failed")]
    confirmed = await visitor.asked("/keys/confirm", digest=digests, action="resolve", result='"mine"')
    async with AsyncOnce(url) as once:
        await once.resolve("held", "theirs")
        await once.forget("dead")
    answer = words(await visitor.post("/keys/change", **confirmed))
    assert "1 of 3 keys resolved" in answer
    assert "somebody changed it meanwhile, and it is done now" in answer
    assert "nothing is known of it any more" in answer
    async with AsyncOnce(url) as once:
        assert (await once.get("held")).result == "theirs"
        assert (await once.get("failed")).result == "mine"


async def test_a_key_that_was_held_again_since_is_another_one(visit, url):
    visitor = visit()
    await visitor.sign_in()
    digest = key_digest("default")("held").hex()
    confirmed = await visitor.asked("/keys/confirm", digest=digest, action="reopen")
    async with AsyncOnce(url) as once:
        await once.reopen("held")
        async with once.claim("held") as claim:
            await claim.hold("a second doubt")
    answer = words(await visitor.post("/keys/change", **confirmed))
    assert "0 of 1 key reopened" in answer
    assert await state(url, "held") == "held"


async def test_a_resolution_can_be_corrected_until_a_caller_was_given_it(visit, url):
    visitor = visit()
    await visitor.sign_in()
    digest = key_digest("default")("held").hex()
    await visitor.change("resolve", "held", result='"wrong"')
    assert "it can be corrected" in (await visitor.get(f"/keys/{digest}")).text
    await visitor.change("resolve", "held", result='"right"')
    async with AsyncOnce(url) as once:
        assert await once.run("held", _never) == "right"
    page = (await visitor.get(f"/keys/{digest}")).text
    assert "it can be corrected" not in page
    assert 'value="resolve"' not in page


async def _never():
    raise AssertionError


@pytest.mark.parametrize(
    ("result", "text"),
    [("", "the result is empty"), ("{", "the result is not JSON"), ("paid", "a text needs its quotes")],
)
async def test_a_result_that_is_not_json_changes_nothing(visit, url, result, text):
    visitor = visit()
    await visitor.sign_in()
    digest = key_digest("default")("held").hex()
    answer = await visitor.post("/keys/confirm", digest=digest, action="resolve", result=result)
    assert (answer.status_code, text in answer.text) == (400, True)
    assert await state(url, "held") == "held"


@pytest.mark.parametrize(
    "fields",
    [{}, {"digest": ""}, {"digest": "nonsense"}, {"digest": "83ccf0f8"}, {"all": "1", "state": "nowhere"}],
)
async def test_without_a_key_there_is_nothing_to_confirm(visit, fields):
    visitor = visit()
    await visitor.sign_in()
    answer = await visitor.post("/keys/confirm", action="reopen", **fields)
    assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)


async def test_a_key_that_is_gone_is_told_so(visit):
    visitor = visit()
    await visitor.sign_in()
    answer = words(await visitor.post("/keys/confirm", action="reopen", digest=key_digest("x")("gone").hex()))
    assert "Nothing would change" in answer
    assert "Nothing is known any more of 1 key that you chose" in answer


@pytest.mark.parametrize(("action", "backlog", "past"), [("retry", 1, "put back"), ("drop", 0, "dropped")])
async def test_a_dead_message_is_put_back_or_given_up(visit, url, action, backlog, past):
    source = open_source(url)
    [message] = source.dead(1)
    visitor = visit()
    await visitor.sign_in()
    confirmed = await visitor.asked("/outbox/confirm", id=message.id, action=action)
    assert source.status().dead == 1
    assert f"Message {past}" in (await visitor.post("/outbox/change", **confirmed)).text
    assert (source.status().dead, source.status().backlog) == (0, backlog)
    source.close()


async def test_what_was_confirmed_is_good_for_nothing_else(visit, url):
    visitor = visit()
    await visitor.sign_in()
    confirmed = await visitor.asked("/keys/confirm", **FORGET)
    other = confirmed["keys"].replace(FORGET["digest"], key_digest("default")("held").hex())
    for changed in (
        {"keys": other},
        {"action": "reopen"},
        {"back": "audit"},
        {"result": "1"},
        {"window": "1h"},
    ):
        answer = await visitor.post("/keys/change", **confirmed | changed)
        assert (answer.status_code, "issued for something else" in answer.text) == (403, True)
    stranger = visit(visitor.app)
    await stranger.sign_in()
    assert (await stranger.post("/keys/change", **confirmed)).status_code == 403
    assert await state(url, "done") == "done"


async def test_a_person_is_known_by_the_token_and_the_audit_has_the_name(visit, url, caplog):
    caplog.set_level(logging.INFO, "dupeproof.audit")
    tokens = {"Ann Lee": "the-token-of-ann-lee", "bob@example.com": "bob's-own-long-token"}
    visitor = visit(token=None, users=tokens)
    page = await visitor.get("/sign-in")
    assert 'name="name"' not in page.text  # nobody says who they are
    assert (await visitor.sign_in(tokens["bob@example.com"], name="Ann Lee")).status_code == 200
    assert "Sign out bob@example.com" in (await visitor.get("/")).text
    await visitor.change("reopen", "held")
    digest = key_digest("default")("held").hex()
    assert "bob@example.com" in (await visitor.get(f"/keys/{digest}")).text.partition("History")[2]
    logged = [record.getMessage() for record in caplog.records]
    assert f"bob@example.com: reopen {digest[:12]}: reopened" in logged
    pages = [(await visitor.get(path)).text for path in ("/", "/audit", "/sign-in")]
    assert not any(token in text for token in tokens.values() for text in [*pages, *logged])


async def test_with_one_token_for_all_each_says_who_they_are(visit):
    visitor = visit(users={"bob": "bob's-own-long-token"})
    assert "Sign out operator" in (await visitor.sign_in(name="")).text
    assert "Sign out ann" in (await visitor.sign_in(name=" ann ")).text
    pretending = await visitor.sign_in(name="bob")
    assert (pretending.status_code, "bob has a token of their own" in pretending.text) == (400, True)


async def test_a_cookie_is_good_for_its_own_name_only(visit):
    tokens = {"ann": "the-token-of-ann-lee", "bob": "bob's-own-long-token"}
    visitor = visit(token=None, users=tokens)
    await visitor.sign_in(tokens["bob"])
    [(name, good)] = visitor.client.cookies.items()
    signed, _, _ = good.rpartition(".")
    visitor.client.cookies = {name: f"{signed}.{urlsafe_b64encode(b'ann').decode().rstrip('=')}"}
    assert "Sign out" not in (await visitor.get("/")).text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"users": {"ann": "short"}}, "the token of ann has fewer than 16 bytes"),
        ({"users": {"ann": TOKEN, "bob": TOKEN}}, "the same token"),
        ({"users": {"ann": TOKEN}, "token": TOKEN}, "the same token"),
        ({"users": {"": TOKEN}}, "the name of a person"),
        ({"users": {"a\nb": TOKEN}}, "the name of a person"),
        ({"settle": lambda: None}, "must take the entry first"),
    ],
)
async def test_what_cannot_be_is_refused_at_the_start_without_a_token_in_the_text(options, text):
    with pytest.raises(ConfigError, match=text) as refused:
        ConsoleApp("memory://", **options)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    "then",
    ["https://evil.example", "//evil.example", "/\\evil.example", "keys/../../x", "javascript:alert(1)"],
)
async def test_after_signing_in_one_stays_here(visit, then):
    visitor = visit()
    answer = await visitor.post("/sign-in", token=TOKEN, then=then)
    assert str(answer.url) == "http://127.0.0.1/"
    kept = await visitor.post("/sign-in", token=TOKEN, then="keys?state=dead&namespace=shop")
    assert str(kept.url) == "http://127.0.0.1/keys?state=dead&namespace=shop"


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
    assert (
        "forgotten" in (await visitor.post("/keys/change", **confirmed)).text
    )  # it was the origin, nothing else
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
    found = await visitor.post("/keys", namespace="default", key=EVIL)
    assert EVIL not in found.text
    for answer in (await visitor.post("/keys", namespace="other", key=EVIL), await visitor.get("/outbox")):
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
