"""A form that is sent twice is worked on once, in each framework."""

import asyncio

import flask
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dupeproof import AsyncOneTimeTokens, ConfigError, OneTimeTokens, TokenExpired, TokenForged
from dupeproof.http import SHARED
from dupeproof.http.django import Idempotent as DjangoIdempotent
from dupeproof.http.flask import Idempotent
from dupeproof.http.forms import (
    FIELD,
    HEADER,
    redeem_in_django,
    redeem_in_flask,
    redeem_in_starlette,
    status_of,
    token_field,
    token_of,
    words_for,
)
from support.places import django_set_up

SECRET = "a secret of the tests, long enough"
CONTEXT = {"user": 1, "action": "order"}
SENT_BEFORE = "This form was sent before. It was taken the first time, and is not taken again."


def test_the_field_is_html_and_safe():
    field = token_field('a"<b>')
    assert field == '<input type="hidden" name="dedup_token" value="a&quot;&lt;b&gt;">'
    assert field.__html__() == field


def test_the_header_wins_and_none_is_forged():
    assert token_of({HEADER: "h"}, {FIELD: "f"}) == "h"
    assert token_of({}, {FIELD: "f"}) == "f"
    for form in ({}, {FIELD: 5}):
        with pytest.raises(TokenForged, match="dedup_token"):
            token_of({}, form)


async def test_tokens_of_the_wrong_kind_are_refused_unused():
    """A coroutine that nobody awaits would have passed for a token that is good, again and again."""
    tokens = OneTimeTokens("memory://", secret=SECRET)
    async_tokens = AsyncOneTimeTokens("memory://", secret=SECRET)
    token = tokens.issue(CONTEXT, ttl="5m")
    request = Request({"type": "http", "headers": [(b"x-dedup-token", token.encode())]})
    with pytest.raises(ConfigError, match="takes AsyncOneTimeTokens"):
        await redeem_in_starlette(request, tokens, CONTEXT)
    assert tokens.status(token) == "unused"
    with pytest.raises(ConfigError, match="takes OneTimeTokens"):
        redeem_in_django(request, async_tokens, CONTEXT)
    with (
        flask.Flask(__name__).test_request_context(),
        pytest.raises(ConfigError, match="takes OneTimeTokens"),
    ):
        redeem_in_flask(async_tokens, CONTEXT)


def test_flask_takes_a_form_once():
    app, done = flask.Flask(__name__), []
    tokens = OneTimeTokens("memory://", secret=SECRET)

    @app.get("/")
    def page():
        return flask.render_template_string("{{ field }}", field=token_field(tokens.issue(CONTEXT, ttl="5m")))

    @app.post("/")
    def order():
        done.append(redeem_in_flask(tokens, CONTEXT))
        return "ordered"

    client = app.test_client()
    token = client.get("/").text.split('value="')[1].split('"')[0]
    answers = [client.post("/", data={FIELD: token}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 409, 409]
    assert SENT_BEFORE in answers[1].text
    assert client.post("/", data={FIELD: "forged"}).status_code == 403
    assert client.post("/").status_code == 403
    other = tokens.issue(CONTEXT, ttl="5m")
    assert client.post("/", headers={HEADER: other}).status_code == 200
    assert len(done) == 2


def test_starlette_takes_a_form_once():
    done = []
    tokens = AsyncOneTimeTokens("memory://", secret=SECRET)

    async def order(request):
        done.append(await redeem_in_starlette(request, tokens, CONTEXT))
        return PlainTextResponse("ordered")

    app = Starlette(routes=[Route("/", order, methods=["POST"])])

    async def main():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            token = tokens.issue(CONTEXT, ttl="5m")
            sent = [client.post("/", data={FIELD: token}, headers={HEADER: ""}) for _ in range(5)]
            answers = await asyncio.gather(*sent)
            wrong = await client.post("/", headers={HEADER: "forged"})
            return sorted(answer.status_code for answer in answers), answers[-1].text, wrong.status_code

    assert asyncio.run(main()) == ([200, 409, 409, 409, 409], SENT_BEFORE, 403)
    assert len(done) == 1


@pytest.fixture
def django_asks():
    """`django_asks(*middleware)`: what Django answers to a form, sent to a view that takes each once."""
    django_set_up()
    from django.http import HttpResponse
    from django.test import Client, override_settings
    from django.urls import path

    tokens = OneTimeTokens("memory://", secret=SECRET)

    def order(request):
        return HttpResponse(redeem_in_django(request, tokens, CONTEXT))

    async def order_async(request):
        async with AsyncOneTimeTokens("memory://", secret=SECRET) as of_loop:
            return HttpResponse(await of_loop.redeem(token_of(request.headers, request.POST), CONTEXT))

    urls = (path("", order), path("async", order_async))

    def ask(*middleware, form, at="/"):
        with override_settings(ROOT_URLCONF=urls, MIDDLEWARE=middleware, ALLOWED_HOSTS=["*"]):
            return Client().post(at, form)

    return tokens, ask


MIDDLEWARE = "dupeproof.http.django.TokenMiddleware"


def test_django_takes_a_form_once(django_asks):
    tokens, ask = django_asks
    form = {FIELD: tokens.issue(CONTEXT, ttl="5m")}
    answers = [ask(MIDDLEWARE, form=form) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 409, 409]
    assert answers[1].text == SENT_BEFORE
    assert ask(MIDDLEWARE, form={FIELD: "forged"}).status_code == 403
    assert ask(MIDDLEWARE, form={}, at="/async").status_code == 403


def test_django_alone_refuses_a_form_that_was_sent_before(django_asks):
    tokens, ask = django_asks
    form = {FIELD: tokens.issue(CONTEXT, ttl="5m")}
    assert [ask(form=form).status_code for _ in range(2)] == [200, 403]
    assert ask(form={FIELD: "forged"}).status_code == 403


def test_whoever_is_late_is_told_so():
    tokens = OneTimeTokens("memory://", secret=SECRET)
    token = tokens.issue(CONTEXT, ttl="1ms")
    with pytest.raises(TokenExpired) as late:
        while True:
            tokens.redeem(token, CONTEXT)
            token = tokens.issue(CONTEXT, ttl="1ms")
    assert (status_of(late.value), "too old" in words_for(late.value)) == (403, True)


def sent_to_flask(tokens, **options):
    app = flask.Flask(__name__)
    idempotent = Idempotent(**options, key=lambda request: request.form.get(FIELD))
    app.post("/")(idempotent(lambda: redeem_in_flask(tokens, CONTEXT)))
    return lambda form: app.test_client().post("/", data=form)


def sent_to_django(tokens, **options):
    django_set_up()
    from django.http import HttpResponse
    from django.test import RequestFactory

    idempotent = DjangoIdempotent(**options, key=lambda request: request.POST.get(FIELD))
    view = idempotent(lambda request: HttpResponse(redeem_in_django(request, tokens, CONTEXT)))
    return lambda form: view(RequestFactory().post("/", form))


@pytest.mark.parametrize("sent", [sent_to_flask, sent_to_django])
def test_a_second_click_may_get_the_answer_of_the_first(sent):
    tokens = OneTimeTokens("memory://", secret=SECRET)
    send = sent(tokens, store="memory://", scope=SHARED, wait="10s")
    form = {FIELD: tokens.issue(CONTEXT, ttl="5m"), "item": "tea"}
    first, again = send(form), send(form)
    assert (first.status_code, len(first.text)) == (200, 32)
    assert again.text == first.text
    assert send({**form, "item": "milk"}).status_code == 422


@pytest.mark.parametrize("sent", [sent_to_flask, sent_to_django])
def test_a_guard_does_not_change_what_is_said_of_a_token(sent):
    """By a guard that has not seen the first click."""
    tokens = OneTimeTokens("memory://", secret=SECRET)
    form = {FIELD: tokens.issue(CONTEXT, ttl="5m")}
    answers = [sent(tokens, store="memory://", scope=SHARED, on_error="hold")(form) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 409]
    assert SENT_BEFORE in answers[1].text
