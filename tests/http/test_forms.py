"""A form that is sent twice is worked on once, in each framework."""

import asyncio

import flask
import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dupeproof import AsyncOneTimeTokens, OneTimeTokens, TokenForged, TokenUsed
from dupeproof.http.forms import (
    FIELD,
    HEADER,
    redeem_in_django,
    redeem_in_flask,
    redeem_in_starlette,
    token_field,
    token_of,
)

SECRET = "a secret of the tests, long enough"
CONTEXT = {"user": 1, "action": "order"}


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
    answers = [client.post("/", data={FIELD: token}).status_code for _ in range(3)]
    assert answers == [200, 409, 409]
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
            sent = [client.post("/", data={FIELD: token}) for _ in range(5)]
            answers = await asyncio.gather(*sent)
            wrong = await client.post("/", headers={HEADER: "forged"})
            return sorted(answer.status_code for answer in answers), wrong.status_code

    assert asyncio.run(main()) == ([200, 409, 409, 409, 409], 403)
    assert len(done) == 1


def test_django_takes_a_form_once():
    from django.core.exceptions import PermissionDenied

    class Request:
        def __init__(self, token):
            self.headers, self.POST = {}, {FIELD: token}

    tokens = OneTimeTokens("memory://", secret=SECRET)
    request = Request(tokens.issue(CONTEXT, ttl="5m"))
    assert redeem_in_django(request, tokens, CONTEXT)
    with pytest.raises(TokenUsed):
        redeem_in_django(request, tokens, CONTEXT)
    with pytest.raises(PermissionDenied):
        redeem_in_django(Request("forged"), tokens, CONTEXT)
