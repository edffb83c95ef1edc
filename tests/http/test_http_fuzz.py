"""Any headers and bodies: never an error of ours, never a hang, never a second run of one request."""

import asyncio
import io
from wsgiref.util import setup_testing_defaults

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from flask import Flask, request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dupeproof.http import SHARED, IdempotencyMiddleware
from dupeproof.http.django import Idempotent as DjangoIdempotent
from dupeproof.http.fingerprints import Head, request_digest
from dupeproof.http.flask import Idempotent as FlaskIdempotent
from dupeproof.http.keys import parse_key
from dupeproof.http.problems import Refused
from dupeproof.http.wsgi import IdempotencyMiddleware as WsgiMiddleware
from support.places import django_set_up

OURS = {200, 400, 409, 413, 422}
values = st.binary(max_size=40) | st.sampled_from(
    [b'"k"', b"k", b'"', b'""', b"k,k", b"\\", b'"\\""', b"x" * 256, b"\xff", b"\x00", b" k ", b'"k";a']
)
names = st.sampled_from(
    [b"idempotency-key", b"content-length", b"content-type", b"transfer-encoding", b"x-other"]
)
types = st.sampled_from(
    [
        b"multipart/form-data; boundary=a",
        b'multipart/form-data; boundary="a b"',
        b"multipart/x; boundary=",
        b"application/x-www-form-urlencoded",
        b"a/b",
        b";",
    ]
)
forms = st.sampled_from(
    [
        b'--a\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n--a--\r\n',
        b"--a\r\n\r\n",
        b"a=1&b=2",
        b"%ff=%zz&&&=",
    ]
)
headers = st.lists(st.tuples(names, values | types), max_size=5)
bodies = st.lists(st.binary(max_size=30), max_size=4)


@settings(max_examples=300, deadline=None)
@given(
    headers=headers,
    pieces=bodies,
    path=st.text(max_size=5),
    query=st.binary(max_size=5),
    leaves=st.booleans(),
)
def test_asgi(headers, pieces, path, query, leaves):
    """A request as odd as it may be, twice."""
    runs = []

    async def app(scope, receive, send):
        if any(name == b"idempotency-key" for name, _ in scope["headers"]):
            runs.append(1)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def ask(middleware):
        messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        messages.append({"type": "http.disconnect"} if leaves else {"type": "http.request"})
        sent = []

        async def receive():
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/" + path,
            "query_string": query,
            "headers": list(headers),
        }
        await asyncio.wait_for(middleware(scope, receive, send), 10)
        return sent[0]["status"] if sent else None

    async def twice():
        middleware = IdempotencyMiddleware(app, store="memory://", scope=SHARED, request_limit=60)
        return [await ask(middleware) for _ in range(2)]

    first, second = asyncio.run(twice())
    assert first in OURS or (first is None and leaves)
    assert second == first
    assert len(runs) <= 1


def around_wsgi(runs, _parse):
    def app(environ, start_response):
        runs.append(1)
        start_response("200 OK", [])
        return [b""]

    return WsgiMiddleware(app, store="memory://", scope=SHARED, request_limit=60)


def around_flask(runs, parse):
    app = Flask(__name__)
    idempotent = FlaskIdempotent(store="memory://", scope=SHARED, request_limit=60)
    app.post("/")(idempotent(lambda: str(runs.append(1))))

    @app.before_request
    def look():
        if parse:
            request.form

    return app


def around_django(runs, parse):
    django_set_up()
    idempotent = DjangoIdempotent(store="memory://", scope=SHARED, request_limit=60)
    view = idempotent(lambda request: HttpResponse(str(runs.append(1))))

    def app(environ, start_response):
        request = WSGIRequest(environ)
        if parse and environ["CONTENT_LENGTH"].isdecimal():  # Django itself takes nothing else
            request.POST
        response = view(request)
        start_response(f"{response.status_code} ", [])
        return [response.content]

    return app


@pytest.mark.parametrize("around", [around_wsgi, around_flask, around_django])
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    key=values,
    length=st.none()
    | st.sampled_from(["", "0", "3", "99", "-1", "1e3", "\uff19", "x"])
    | st.text(max_size=3),
    content_type=types,
    body=st.binary(max_size=30) | forms,
    parse=st.booleans(),
)
def test_wsgi(around, key, length, content_type, body, parse):
    """Each adapter, of an app that has or has not looked at the form before."""
    runs, statuses = [], []
    app = around(runs, parse)
    for _ in range(2):
        environ = {
            "REQUEST_METHOD": "POST",
            "HTTP_IDEMPOTENCY_KEY": key.decode("latin-1"),
            "CONTENT_LENGTH": str(len(body)) if length is None else length,
            "CONTENT_TYPE": content_type.decode("latin-1"),
            "wsgi.input": io.BytesIO(body),
        }
        setup_testing_defaults(environ)
        response = app(environ, lambda status, headers, exc_info=None: statuses.append(int(status[:3])))
        getattr(response, "close", lambda: None)()
    assert statuses[0] in OURS
    assert statuses[1] == statuses[0]
    assert len(runs) <= 1


@settings(max_examples=500, deadline=None)
@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=255))
def test_every_printable_key_can_be_sent_in_quotes(key):
    quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if key.isspace():
        key = None
    try:
        assert parse_key([quoted]) == key
    except Refused:
        assert key is None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text("ab-\r\n", max_size=8).map(str.encode), max_size=4), st.data())
def test_a_multipart_digest_depends_on_the_parts_and_not_on_how_they_arrive(parts, data):
    digests = set()
    for boundary in (b"XyZ", b"another-boundary"):
        whole = b"--" + boundary + (b"--" + boundary).join([b"", *parts, b"--\r\n"])[2 + len(boundary) :]
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
        chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        digests.add(
            request_digest(Head("POST", "/", b"", b"multipart/form-data; boundary=" + boundary), chunks)
        )
    assert len(digests) == 1
    other = [*parts, b"one more"]
    whole = b"--XyZ" + b"--XyZ".join([b"", *other, b"--\r\n"])[5:]
    assert (
        request_digest(Head("POST", "/", b"", b"multipart/form-data; boundary=XyZ"), [whole]) not in digests
    )
