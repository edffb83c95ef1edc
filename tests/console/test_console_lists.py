"""Lists by state, and changes to many keys at once, on every kind of store."""

import asyncio
import os
import re
import time
from contextlib import closing

import pytest
from console_data import TOKEN, claimed, digest_of, words

from dupeproof import AsyncOnce, Done, NotDone, Unknown, step
from dupeproof.console import ConsoleApp
from dupeproof.core.records import ClaimRequest, Terms
from dupeproof.stores import open_store

NAMES = ("order-1", "order-2", "order-3", "order-4")


async def doubtful(key):
    raise TimeoutError(key)


async def failing():
    raise ZeroDivisionError


async def fill(url):
    """Held calls of two functions, a dead one, a failed one."""
    async with AsyncOnce(url, namespace="shop", keep_keys=True, on_error="hold") as once:
        for name, keys in (("shop.pay", NAMES[:3]), ("shop.refund", NAMES[3:])):
            guarded = once(key="key", name=name)(doubtful)
            for key in keys:
                with pytest.raises(TimeoutError):
                    await guarded(key)
        async with once.claim("slip") as claim:
            await claim.hold("the printer was on fire")
    for key, attempts in (("dead", 1), ("failed", None)):
        async with AsyncOnce(url, namespace="jobs", max_attempts=attempts) as once:
            with pytest.raises(ZeroDivisionError):
                await once.run(key, failing)


@pytest.fixture
async def store(any_url):
    """The memory of a process lives as long as somebody has it open."""
    async with AsyncOnce(any_url) as keeper:
        await keeper.stats()
        await fill(any_url)
        yield any_url


@pytest.fixture
async def operator(store, visit):
    apps = []

    async def come(**options):
        app = ConsoleApp(store, token=TOKEN, **options)
        apps.append(app)
        visitor = visit(app)
        await visitor.sign_in()
        return visitor

    yield come
    for app in apps:
        await app.close()


async def states(url, *keys):
    async with AsyncOnce(url, namespace="shop") as once:
        entries = [await once.get(key) for key in keys]
    return [None if entry is None else entry.state for entry in entries]


async def listed(visitor, query):
    """The digits of the keys in a list, when it is complete."""
    while True:
        answer = await visitor.get(f"/keys?{query}")
        assert answer.status_code == 200
        if "so far" not in answer.text and "Still looking" not in answer.text:
            return re.findall(r'href="/keys/([0-9a-f]{32})"', answer.text)


async def test_the_overview_leads_to_the_list_and_the_list_to_the_key(operator):
    visitor = await operator()
    overview = await visitor.get("/")
    while "keys are held" not in overview.text:
        overview = await visitor.get("/")
    assert "5 keys are held" in words(overview)
    assert "1 key is dead" in words(overview)
    [way] = re.findall(r'<a href="([^"]+)"><span class="count">5<', overview.text)
    page = await visitor.get(way)
    assert "shop.pay:order-1" in page.text  # it was kept
    assert "the printer was on fire" in page.text
    key = words(await visitor.get(f"/keys/{digest_of('shop.pay:order-1', 'shop')}"))
    for text in (
        "Nobody runs it until you say whether it did",
        "Function shop.pay",
        "Attempts 1",
        "Error TimeoutError",
    ):
        assert text in key


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("state=held", [*(f"shop.pay:{name}" for name in NAMES[:3]), "shop.refund:order-4", "slip"]),
        ("state=held&name=shop.refund", ["shop.refund:order-4"]),
        ("state=held&error=the+printer+was+on+fire", ["slip"]),
        ("state=held&namespace=jobs", []),
        ("state=dead", [("dead", "jobs")]),
        ("state=failed&namespace=jobs&error=ZeroDivisionError", [("failed", "jobs")]),
        ("state=running", []),
        ("state=abandoned", []),
    ],
)
async def test_a_list_has_what_is_in_its_state_and_matches(operator, query, keys):
    visitor = await operator()
    wanted = {digest_of(*each) if isinstance(each, tuple) else digest_of(each, "shop") for each in keys}
    assert set(await listed(visitor, query)) == wanted


async def test_the_oldest_come_first_or_the_newest(operator):
    visitor = await operator()
    oldest = await listed(visitor, "state=held")
    assert await listed(visitor, "state=held&order=newest") == oldest[::-1]


async def test_many_are_reopened_at_once_but_not_what_changed_meanwhile(operator, store):
    visitor = await operator()
    fields = {"all": "1", "state": "held", "name": "shop.pay", "action": "reopen"}
    confirmed = await visitor.asked("/keys/confirm", **fields)
    assert confirmed["keys"].count(".held.") == 3
    async with AsyncOnce(store, namespace="shop") as once:
        await once.resolve("shop.pay:order-2", "theirs")
    answer = words(await visitor.post("/keys/change", **confirmed))
    assert "2 of 3 keys reopened" in answer
    assert "somebody changed it meanwhile, and it is done now" in answer
    keys = [f"shop.pay:{name}" for name in NAMES[:3]]
    assert await states(store, *keys, "shop.refund:order-4") == [None, "done", None, "held"]


async def test_many_are_resolved_with_one_result(operator, store):
    visitor = await operator()
    digests = [digest_of(f"shop.pay:{name}", "shop") for name in NAMES[:2]]
    confirmed = await visitor.asked("/keys/confirm", digest=digests, action="resolve", result='{"ok": true}')
    assert "2 of 2 keys resolved" in (await visitor.post("/keys/change", **confirmed)).text
    async with AsyncOnce(store, namespace="shop") as once:
        assert (await once.get("shop.pay:order-1")).result == {"ok": True}
    assert await states(store, "shop.pay:order-3") == ["held"]


def says(entry):
    match entry.key:
        case "shop.pay:order-1":
            return Done({"receipt": 1})
        case "shop.pay:order-2":
            return NotDone()
        case "shop.pay:order-3":
            return Unknown()
    raise ConnectionError("a secret of the provider")


async def says_async(entry):
    return says(entry)


@pytest.mark.parametrize("lookup", [says, says_async])
async def test_a_lookup_settles_what_it_knows_and_leaves_the_rest(operator, store, lookup):
    visitor = await operator(settle=lookup)
    preview = await visitor.post("/keys/confirm", all="1", state="held", action="settle")
    for text in ("done, with a result", "free to run", "does not know", "failed with ConnectionError"):
        assert text in preview.text
    assert "a secret of the provider" not in preview.text
    assert await states(store, "shop.pay:order-1", "shop.pay:order-2") == [
        "held",
        "held",
    ]  # asking changed nothing
    confirmed = await visitor.asked("/keys/confirm", all="1", state="held", action="settle")
    answer = words(await visitor.post("/keys/change", **confirmed))
    assert "2 of 2 keys settled" in answer
    async with AsyncOnce(store, namespace="shop") as once:
        assert (await once.get("shop.pay:order-1")).result == {"receipt": 1}
        async with once.claim("shop.pay:order-2") as claim:
            assert (claim.won, claim.attempt) == (True, 2)
    assert await states(store, "shop.pay:order-3", "shop.refund:order-4", "slip") == ["held"] * 3


async def test_a_lookup_can_settle_one_step_and_the_rest_runs(operator, store):
    charged = []

    async def charge():
        charged.append(1)
        raise TimeoutError

    async def pay():
        return await step("charge", charge)

    async with AsyncOnce(store, namespace="steps", on_error="hold") as once:
        for key in ("k-1", "k-2"):
            with pytest.raises(TimeoutError):
                await once.run(key, pay)
    first = digest_of("k-1", "steps")
    visitor = await operator(
        settle=lambda entry: Done(17, step="charge" if entry.digest == first else "unheard of")
    )
    confirmed = await visitor.asked(
        "/keys/confirm", all="1", state="held", namespace="steps", action="settle"
    )
    assert confirmed["keys"].startswith(first)
    answer = words(await visitor.post("/keys/change", **confirmed))
    assert "settled: a step is done, with what the lookup said, and the call may run again" in answer
    async with AsyncOnce(store, namespace="steps") as once:
        assert await once.run("k-1", pay) == 17
        assert (await once.get("k-2")).state == "held"
    assert len(charged) == 2


async def test_a_lookup_that_changes_its_mind_leaves_the_key_held(operator, store):
    answers = iter([Done(1), Done(2)])
    visitor = await operator(settle=lambda _: next(answers))
    confirmed = await visitor.asked("/keys/confirm", digest=digest_of("slip", "shop"), action="settle")
    answer = words(await visitor.post("/keys/change", **confirmed))
    assert "0 of 1 key settled" in answer
    assert "the lookup says something else now" in answer
    assert await states(store, "slip") == ["held"]


@pytest.mark.parametrize("wrong", ["not an answer", None])
async def test_a_lookup_that_gives_something_else_changes_nothing(operator, store, wrong):
    visitor = await operator(settle=lambda _: wrong)
    preview = words(await visitor.post("/keys/confirm", digest=digest_of("slip", "shop"), action="settle"))
    assert "Nothing would change" in preview
    assert "the lookup failed with ConfigError" in preview
    assert await states(store, "slip") == ["held"]


async def test_a_key_is_found_whole_by_its_digest_or_by_its_first_digits(operator):
    visitor = await operator()
    digest = digest_of("shop.pay:order-1", "shop")
    for namespace, text in (
        ("shop", "shop.pay:order-1"),
        ("default", digest),
        ("default", digest[:8].upper()),
    ):
        answer = await visitor.post("/keys", namespace=namespace, key=text)
        assert answer.url.path == f"/keys/{digest}"


async def test_digits_of_several_keys_show_the_candidates(operator, store):
    digests = [bytes.fromhex("feedc0de" + end * 12) for end in ("00", "11")]
    with closing(open_store(store)) as opened:
        terms = Terms("shop", lease=60_000, window=60_000)
        opened.claim([ClaimRequest(digest, os.urandom(8), terms) for digest in digests])
    visitor = await operator()
    answer = await visitor.post("/keys", namespace="default", key="feedc0de")
    assert "These digits begin the digests of 2 keys. Which one is it?" in words(answer)
    assert set(re.findall(r'href="/keys/([0-9a-f]{32})"', answer.text)) == {each.hex() for each in digests}


async def test_nothing_needs_a_person_where_all_is_well(visit):
    app = ConsoleApp("memory://all-is-well")
    visitor = visit(app)
    assert "Nothing needs a person." in (await visitor.get("/")).text
    assert "No key is held." in (await visitor.get("/keys")).text
    await app.close()


async def test_a_page_never_waits_for_a_walk_and_says_how_far_it_is(tmp_path, visit):
    url = f"sqlite:///{tmp_path}/large.db?synchronous=normal"
    terms = Terms("large", lease=86_400_000, window=86_400_000)
    with closing(open_store(url)) as opened:
        for _ in range(20):
            opened.claim([ClaimRequest(os.urandom(16), os.urandom(8), terms) for _ in range(5_000)])
    claimed(url, "last", Terms("default", lease=1, window=86_400_000))
    app = ConsoleApp(url)
    visitor = visit(app)
    steps, longest = [], 0.0
    while True:
        began = time.monotonic()
        answer = words(await visitor.get("/keys?state=abandoned"))
        longest = max(longest, time.monotonic() - began)
        if "Looked through" in answer:
            break
        steps.append(
            int(re.search(r"Looking through the store: ([\d,]+) records", answer)[1].replace(",", ""))
        )
        await asyncio.sleep(0.05)
    assert steps == sorted(steps)
    assert steps[0] < 100_001
    assert "100,001 records" in answer
    assert digest_of("last")[:12] in answer
    assert longest < 5
    running = words(await visitor.get("/keys?state=running"))
    assert "found" in running
    await app.close()


@pytest.mark.parametrize("query", ["state=gone", "state=done", "order=up", "page=x", "page=-1"])
async def test_a_list_that_does_not_exist_is_told_so(visit, query):
    answer = await visit().get(f"/keys?{query}")
    assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)


async def test_a_list_has_pages(tmp_path, visit):
    url = f"sqlite:///{tmp_path}/pages.db?synchronous=normal"
    with closing(open_store(url)) as opened:
        terms = Terms("pages", lease=1, window=86_400_000, hold=True)
        opened.claim([ClaimRequest(os.urandom(16), os.urandom(8), terms) for _ in range(120)])
    app = ConsoleApp(url)
    visitor = visit(app)
    pages = [await listed(visitor, f"state=held&page={number}") for number in (1, 2, 3)]
    assert [len(page) for page in pages] == [50, 50, 20]
    assert len({digest for page in pages for digest in page}) == 120
    assert "101–120 of 120" in words(await visitor.get("/keys?state=held&page=3"))
    await app.close()
