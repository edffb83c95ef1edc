"""What the pages show, and what they keep to themselves."""

import asyncio
import re
import sqlite3
from contextlib import closing

import pytest
from console_data import EVIL, TOKEN, words
from starlette.applications import Starlette
from starlette.routing import Mount

from dupeproof import AsyncOnce, ConfigError, Inbox, Outbox
from dupeproof.console import ConsoleApp
from dupeproof.keys.names import key_digest
from dupeproof.stores.memory import AsyncMemoryStore, MemoryStore

PAGES = (
    "/",
    "/keys",
    "/keys?state=dead",
    "/keys?state=failed",
    "/windows",
    "/outbox",
    "/purge",
    "/audit",
    "/sign-in",
)


@pytest.mark.parametrize("page", PAGES)
async def test_every_page_is_there_and_holds_no_secret(visit, page):
    visitor = visit()
    await visitor.sign_in()
    answer = await visitor.get(page)
    assert answer.status_code == 200
    for secret in ("secret-receipt-17", "secret-payload", "customer-7", "a-token-for-the-console", EVIL):
        assert secret not in answer.text


async def test_the_overview_counts_what_the_store_holds_and_tells_what_the_doctor_found(visit):
    text = (await visit().get("/")).text
    for title, count in {
        "in flight": 1,
        "held": 1,
        "dead": 1,
        "failed": 1,
        "done": 2,
        "marks": 1,
        "inbox": 3,
    }.items():
        assert re.search(rf"<dt>{title}</dt><dd>(<a [^>]+>)?{count}<", text)
    assert "1 message of the outbox is dead" in text  # one of the doctor's findings


async def test_late_duplicates_and_an_outbox_that_waits_need_a_person(visit, url, tmp_path):
    inbox, outbox = Inbox("mail", window="1ms"), Outbox()
    with closing(sqlite3.connect(tmp_path / "dedup.db", isolation_level=None)) as connection:
        for _ in range(2):
            connection.execute("BEGIN IMMEDIATE")
            inbox.first(connection, "late")
            outbox.add(connection, topic="mail", payload={})
            connection.execute("COMMIT")
            await asyncio.sleep(0.05)
        connection.execute("UPDATE dupeproof_outbox SET created_at = created_at - 120000")
    text = words(await visit().get("/"))
    assert "1 duplicate came too late" in text
    assert "2 messages wait in the outbox" in text


async def test_late_duplicates_are_drawn_with_the_window_they_suggest(visit):
    text = (await visit().get("/windows")).text
    assert "<h2>shipping</h2>" in text
    assert "<dt>duplicates</dt><dd>3</dd>" in text
    assert "<dt>suggested</dt><dd>1m</dd>" in text
    assert '<th scope="row">under 1s</th>' in text


async def test_expired_rows_are_shown_on_the_page_of_the_purge(visit, url):
    async with AsyncOnce(url, window="1ms") as once:
        await once.seen("gone")
        while (await once.stats()).expired == 0:
            pass
    text = (await visit().get("/purge")).text
    assert "<dt>expired, to be purged</dt><dd>1</dd>" in text
    assert "<dt>lag of the oldest</dt><dd>–</dd>" not in text


@pytest.mark.parametrize("state", ["done", "failed", "dead", "held", "running"])
async def test_a_key_is_found_in_any_state(visit, state):
    answer = await visit().post("/keys", namespace="default", key=state)
    assert f'<span class="state {state}">' in answer.text
    assert key_digest("default")(state).hex()[:12] in answer.text


async def test_a_key_nobody_knows_is_told_so(visit):
    answer = await visit().post("/keys", namespace="default", key="never")
    assert "Nothing is known of this key" in answer.text


async def test_results_are_shown_only_where_that_was_allowed(visit):
    hidden = await visit().post("/keys", namespace="default", key="done")
    assert "secret-receipt-17" not in hidden.text
    assert "which are not shown here" in hidden.text
    shown = await visit(show_results=True).post("/keys", namespace="default", key="done")
    assert "secret-receipt-17" in shown.text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"namespace": "default", "key": ""}, "the key is empty"),
        ({"namespace": "a b", "key": "k"}, "is not usable"),
        ({"namespace": "default", "key": "k" * 5_000}, "longer than 4096 bytes"),
        ({"namespace": "default", "key": "k" * 140_000}, "at most 131,072 bytes"),
        ({f"f{n}": "" for n in range(130)}, "not a form"),
    ],
)
async def test_bad_input_gets_an_answer_that_says_what_is_wrong(visit, fields, text):
    answer = await visit().post("/keys", **fields)
    assert (answer.status_code, text in answer.text) == (400, True)


async def test_a_store_that_is_down_is_told_so_and_the_page_still_comes(visit):
    visitor = visit(ConsoleApp("redis://127.0.0.1:1/0"))
    answer = await visitor.get("/")
    assert answer.status_code == 200
    assert 'class="problem"' in answer.text
    assert "Nothing needs a person" not in answer.text  # nobody knows
    for path in ("/keys", "/keys?state=failed"):
        listed = await visitor.get(path)
        assert (listed.status_code, 'class="problem"' in listed.text) == (200, True)
    assert (await visitor.post("/keys", namespace="default", key="k")).status_code == 503


async def test_a_store_may_be_given_as_it_is(visit):
    store = AsyncMemoryStore(MemoryStore())
    await AsyncOnce(store).seen("k")
    visitor = visit(ConsoleApp(store))
    assert "<dt>marks</dt><dd>1</dd>" in (await visitor.get("/")).text
    for page in PAGES:
        assert (await visitor.get(page)).status_code == 200


async def test_a_console_on_redis_finds_a_key_and_has_no_outbox(visit, redis_url):
    async with AsyncOnce(redis_url) as once:
        await once.run("o-1", _seventeen)
    app = ConsoleApp(redis_url)
    visitor = visit(app)
    assert 'class="state done"' in (await visitor.post("/keys", namespace="default", key="o-1")).text
    assert "this console was given none of them" in (await visitor.get("/outbox")).text
    await app.close()


async def test_a_console_on_postgres_shows_every_page(visit, postgres_url):
    async with AsyncOnce(postgres_url) as once:
        await once.run("o-1", _seventeen)
    app = ConsoleApp(postgres_url)
    visitor = visit(app)
    for page in PAGES:
        answer = await visitor.get(page)
        assert (answer.status_code, 'class="problem"' in answer.text) == (200, False)
    await app.close()


async def test_a_token_that_could_be_guessed_is_refused():
    with pytest.raises(ConfigError, match="fewer than 16 bytes"):
        ConsoleApp("memory://", token="short")


async def _seventeen():
    return 17


async def test_mounted_somewhere_its_pages_know_their_way(visit, url):
    app = ConsoleApp(url, token=TOKEN)
    visitor = visit(Starlette(routes=[Mount("/ops/console", app)]))
    answer = await visitor.post("/ops/console/sign-in", token=TOKEN)
    assert (answer.status_code, answer.url.path) == (200, "/ops/console/")
    assert 'href="/ops/console/keys"' in answer.text
    assert (await visitor.get("/ops/console/static/console.css")).status_code == 200
    assert visitor.client.cookies.jar._cookies["127.0.0.1"].keys() == {"/ops/console"}
    await app.close()
