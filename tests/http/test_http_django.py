"""What views of Django may do, decorated."""

import asyncio
from types import ModuleType

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.test import AsyncRequestFactory, Client, RequestFactory, override_settings
from django.test.signals import setting_changed  # noqa: F401 - without it the URLs would not change
from django.urls import path
from django.utils.asyncio import async_unsafe
from django.utils.decorators import method_decorator
from django.views import View

from dupeproof.errors import ConfigError
from dupeproof.http import SHARED
from dupeproof.http.django import Idempotent
from support.places import django_set_up

django_set_up()
KEY = {"Idempotency-Key": "k"}


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """As Django is by itself."""
    monkeypatch.delenv("DJANGO_ALLOW_ASYNC_UNSAFE")


@pytest.fixture(params=["sync", "async"])
def ask(request):
    """`ask(view, …)`: the responses to the same request twice, of a view of either kind."""

    def plainly(view, times=2, **options):
        guarded = Idempotent(**{"store": "memory://", "scope": SHARED, **options})(view)
        return [guarded(RequestFactory().post("/", headers=KEY)) for _ in range(times)]

    def in_a_loop(view, times=2, **options):
        async def in_loop(request):
            return view(request)

        guarded = Idempotent(**{"store": "memory://", "scope": SHARED, **options})(in_loop)

        async def main():
            return [await guarded(AsyncRequestFactory().post("/", headers=KEY)) for _ in range(times)]

        return async_to_sync(main)()

    return plainly if request.param == "sync" else in_a_loop


@pytest.mark.parametrize("on_error", ["reopen", "store", "hold"])
@pytest.mark.parametrize(
    ("error", "status", "runs"),
    [(Http404, 404, 1), (BadRequest, 400, 1), (SuspiciousOperation, 400, 1), (PermissionDenied, 403, 2)],
)
@override_settings(ROOT_URLCONF=())
def test_what_django_answers_is_an_answer(ask, on_error, error, status, runs):
    ran = []

    def view(request):
        ran.append(1)
        raise error

    responses = ask(view, on_error=on_error)
    assert [response.status_code for response in responses] == [status, status]
    assert responses[0].content == responses[1].content
    assert len(ran) == runs


def test_without_a_key_a_view_is_left_to_django(ask):
    def view(request):
        raise Http404

    with pytest.raises(Http404):
        ask(view, key="X-Other")


def test_any_other_error_is_a_failure(ask):
    def view(request):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        ask(view)


def test_a_scope_may_ask_the_database(ask):
    """As `request.user` does, and Django allows it in no event loop."""
    ran = []

    def view(request):
        ran.append(1)
        return HttpResponse("done")

    responses = ask(view, scope=async_unsafe("no queries here")(lambda request: "someone"))
    assert [response.content for response in responses] == [b"done", b"done"]
    assert len(ran) == 1


def test_a_template_may_ask_the_database(ask):
    from django.template import Context, Engine
    from django.template.response import SimpleTemplateResponse

    class Page(SimpleTemplateResponse):
        @property
        def rendered_content(self):
            names = async_unsafe("no queries here")(lambda: ["a", "b"])
            return Engine().from_string("{{ names.0 }}").render(Context({"names": names()}))

    responses = ask(lambda request: Page("of no file"))
    assert [response.content for response in responses] == [b"a", b"a"]
    assert responses[1]["Idempotent-Replayed"] == "true"


def test_a_view_that_is_guarded_twice_runs_once():
    ran = []
    idempotent = Idempotent(store="memory://", scope=SHARED)

    @idempotent
    @idempotent
    def view(request):
        ran.append(1)
        return HttpResponse("done")

    responses = [view(RequestFactory().post("/", headers=KEY)) for _ in range(2)]
    assert [response.content for response in responses] == [b"done", b"done"]
    assert len(ran) == 1


def test_an_async_class_is_not_taken_for_a_sync_one():
    @method_decorator(Idempotent(store="memory://", scope=SHARED), name="dispatch")
    class Order(View):
        async def post(self, request):
            raise AssertionError

    with pytest.raises(ConfigError, match="as_view"):
        Order.as_view()(RequestFactory().post("/", headers=KEY))


@pytest.mark.parametrize("where", ["around as_view", "on its method"])
def test_an_async_class_may_be_guarded(where):
    ran = []

    class Order(View):
        async def post(self, request):
            ran.append(1)
            return HttpResponse("done")

    idempotent = Idempotent(store="memory://", scope=SHARED)
    if where == "on its method":
        view = method_decorator(idempotent, name="post")(Order).as_view()
    else:
        view = idempotent(Order.as_view())

    async def main():
        return [await view(AsyncRequestFactory().post("/", headers=KEY)) for _ in range(2)]

    assert [response.content for response in async_to_sync(main)()] == [b"done", b"done"]
    assert len(ran) == 1


@pytest.mark.parametrize("parsed_before", [False, True])
@pytest.mark.parametrize("content_type", ["multipart", "urlencoded"])
def test_forms_are_compared_by_their_parts(parsed_before, content_type):
    idempotent = Idempotent(store="memory://", scope=SHARED)
    view = idempotent(lambda request: HttpResponse(request.POST["note"]))

    def post(note):
        form = {"data": {"note": note}} if content_type == "multipart" else {"data": f"note={note}"}
        if content_type == "urlencoded":
            form["content_type"] = "application/x-www-form-urlencoded"
        request = RequestFactory().post("/", headers=KEY, **form)
        assert not parsed_before or request.POST
        return view(request)

    assert [post(note).status_code for note in ("1", "1", "2")] == [200, 200, 422]


def test_a_body_that_was_read_before_is_limited_too():
    view = Idempotent(store="memory://", scope=SHARED, request_limit=5)(lambda request: HttpResponse("done"))
    request = RequestFactory().post("/", b"too much", content_type="text/plain", headers=KEY)
    assert request.body
    del request.META["CONTENT_LENGTH"]
    assert view(request).status_code == 413


def test_what_was_read_away_is_not_taken_for_empty():
    view = Idempotent(store="memory://", scope=SHARED)(lambda request: HttpResponse("done"))
    request = RequestFactory().post("/", b"{}", content_type="application/json", headers=KEY)
    assert request.read()
    with pytest.raises(ConfigError, match=r"request\.body"):
        view(request)


# Who is asked, and what is kept


@pytest.mark.parametrize("status", [401, 200])
def test_a_scope_that_knows_nobody_leaves_it_to_the_view(ask, status, caplog):
    ran = []

    def view(request):
        ran.append(1)
        return HttpResponse(status=status)

    responses = ask(view, scope=lambda request: None)
    assert [response.status_code for response in responses] == [status, status]
    assert len(ran) == 2
    assert caplog.text.count("without a guard") == (status == 200)


def test_what_a_scope_raises_is_for_django_to_answer(ask):
    def nobody(request):
        raise PermissionDenied

    with pytest.raises(PermissionDenied):
        ask(lambda request: HttpResponse("done"), scope=nobody)


def test_who_may_not_see_a_response_any_more_is_not_given_it(ask):
    asked = async_unsafe("no queries here")(lambda request: False)
    first, again = ask(lambda request: HttpResponse("done"), authorize=asked)
    assert (first.content, again.status_code) == (b"done", 403)
    assert b"not-authorized" in again.content


@pytest.mark.parametrize(
    ("size", "headers", "kept"), [(9, {}, True), (999, {}, False), (9, {"X-Accel-Buffering": "no"}, False)]
)
def test_a_streamed_response_is_kept_if_it_is_small(ask, size, headers, kept):
    pieces = [b"x" * size, b"y"]
    responses = ask(lambda request: StreamingHttpResponse(iter(pieces), headers=headers), response_limit=100)
    first = b"".join(responses[0].streaming_content)
    assert first == b"".join(pieces)
    assert responses[1].content == first if kept else responses[1].status_code == 409


async def test_an_async_stream_is_kept_if_its_end_is_near():
    async def pieces(pause):
        yield b"one "
        await asyncio.sleep(pause)
        yield b"two"

    for pause, kept in ((0, True), (0.3, False)):

        @Idempotent(store="memory://", scope=SHARED, stream_after="100ms")
        async def view(request, pause=pause):
            return StreamingHttpResponse(pieces(pause))

        first, again = [await view(AsyncRequestFactory().post("/", headers=KEY)) for _ in range(2)]
        assert b"".join([piece async for piece in first.streaming_content]) == b"one two"
        assert again.content == b"one two" if kept else again.status_code == 409


def test_a_request_that_finds_no_view_keeps_its_key_for_where_it_is_sent():
    """Django answers 404, of which its own middleware, outside of ours, makes a redirection to the slash."""
    ran = []

    def order(request):
        ran.append(1)
        return HttpResponse("done")

    urls = ModuleType("slashed_urls")
    urls.urlpatterns = [path("orders/", order)]
    middleware = ["django.middleware.common.CommonMiddleware", "dupeproof.http.django.IdempotencyMiddleware"]
    with override_settings(
        ROOT_URLCONF=urls,
        ALLOWED_HOSTS=["*"],
        MIDDLEWARE=middleware,
        DUPEPROOF_HTTP={"store": "memory://", "scope": "dupeproof.http.SHARED"},
    ):
        client = Client(headers=KEY)
        sent = client.post("/orders")
        assert (sent.status_code, sent.headers.get("Location")) == (301, "/orders/"), sent.content
        assert client.post("/orders/").content == b"done"
        assert client.post("/orders/").headers["Idempotent-Replayed"] == "true"
        from_the_start = client.post("/orders")
        assert from_the_start.headers["Idempotent-Replayed"] == "true"
    assert len(ran) == 1


def test_an_async_stream_of_a_sync_view_is_done_and_not_kept():
    async def pieces():
        yield b"one"

    view = Idempotent(store="memory://", scope=SHARED)(lambda request: StreamingHttpResponse(pieces()))
    first, again = [view(RequestFactory().post("/", headers=KEY)) for _ in range(2)]
    assert (first.status_code, first["Idempotency-Stored"]) == (200, "false")
    assert again.status_code == 409


@pytest.mark.parametrize("headers", [KEY, {}], ids=["with-key", "without"])
async def test_a_view_whose_client_has_gone_is_cancelled_unless_it_has_a_key(headers):
    began, goes_on, ended = asyncio.Event(), asyncio.Event(), []

    @Idempotent(store="memory://", scope=SHARED)
    async def view(request):
        began.set()
        try:
            await goes_on.wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        ended.append("done")
        return HttpResponse()

    asked = asyncio.ensure_future(view(AsyncRequestFactory().post("/", headers=headers)))
    await began.wait()
    asked.cancel()
    if headers:
        goes_on.set()
    await asyncio.wait([asked], timeout=5)
    assert ended == (["done"] if headers else ["cancelled"])


async def test_an_async_function_in_a_lambda_is_waited_for_before_a_replay():
    async def is_one_of(users):
        return "ada" in users

    @Idempotent(store="memory://", scope=SHARED, authorize=lambda request: is_one_of(["bob"]))
    async def view(request):
        return HttpResponse("done")

    first, again = [await view(AsyncRequestFactory().post("/", headers=KEY)) for _ in range(2)]
    assert (first.content, again.status_code) == (b"done", 403)


async def test_a_client_that_goes_while_its_key_is_asked_for_leaves_a_run_behind():
    """And not a claim that nobody works on."""
    asked, goes_on, ran = asyncio.Event(), asyncio.Event(), []

    async def scope(request):
        asked.set()
        await goes_on.wait()
        return "someone"

    @Idempotent(store="memory://", scope=scope)
    async def view(request):
        ran.append(1)
        return HttpResponse("done")

    leaving = asyncio.ensure_future(view(AsyncRequestFactory().post("/", headers=KEY)))
    await asked.wait()
    leaving.cancel()
    goes_on.set()
    await asyncio.wait([leaving], timeout=5)
    again = await view(AsyncRequestFactory().post("/", headers=KEY))
    assert (again.content, again["Idempotent-Replayed"]) == (b"done", "true")
    assert ran == [1]
