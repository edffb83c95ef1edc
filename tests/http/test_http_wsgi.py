"""What a WSGI server and an app may do to each other, with the middleware in between."""

import io
import sys
import time
from wsgiref.util import setup_testing_defaults

import pytest
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from dupeproof.http import SHARED
from dupeproof.http.wsgi import IdempotencyMiddleware, WsgiRequest


class Input(io.BytesIO):
    """A connection that would block whoever reads past the body."""

    def __init__(self, data, announced):
        super().__init__(data)
        self.left = announced

    def read(self, size=-1):
        assert 0 <= size <= self.left, "read past the body"
        self.left -= size
        return super().read(size)


class Line:
    """A server, as an app sees one."""

    def __init__(self, body=b"", **environ):
        self.environ = {
            "REQUEST_METHOD": "POST",
            "HTTP_IDEMPOTENCY_KEY": "k",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": Input(body, len(body)),
            **environ,
        }
        setup_testing_defaults(self.environ)
        self.written = []

    def start_response(self, status, headers, exc_info=None):
        self.status, self.headers = int(status[:3]), dict(headers)
        return self.written.append

    def ask(self, app):
        response = app(self.environ, self.start_response)
        try:
            return b"".join([*self.written, *response])
        finally:
            if hasattr(response, "close"):
                response.close()


def protected(app, **options):
    return IdempotencyMiddleware(app, **{"store": "memory://", "scope": SHARED, **options})


def plain(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["wsgi.input"].read()]


@pytest.mark.parametrize(
    "scope",
    [
        lambda request: request.headers["X-User"],
        lambda request: request.headers.get("x-user"),
        lambda request: dict(request.headers)["x-user"],
        lambda environ: environ["HTTP_X_USER"],
        lambda environ: environ.get("HTTP_X_USER"),
    ],
)
def test_a_request_may_be_asked_as_frameworks_are_and_as_an_environ(scope):
    app = protected(plain, scope=scope)
    lines = [Line(HTTP_X_USER=user) for user in ("ada", "ada", "bob")]
    for line in lines:
        line.ask(app)
    assert ["Idempotent-Replayed" in line.headers for line in lines] == [False, True, False]


def test_headers_of_a_request():
    line = Line(b"{}", CONTENT_TYPE="application/json", HTTP_X_USER="ada")
    request = WsgiRequest(line.environ)
    assert request.headers["Content-Type"] == "application/json"
    assert {"x-user", "content-length", "idempotency-key"} <= set(request.headers)
    assert "X-USER" in request.headers
    assert "X-Other" not in request.headers
    assert len(request.headers) == len(dict(request.headers))
    assert dict(request) == line.environ


@pytest.mark.parametrize("size", [0, 1, 100_000, 2_000_000])
def test_a_body_is_read_to_its_end_and_no_further(size):
    line = Line(b"x" * size)
    assert line.ask(protected(plain, response_limit=3_000_000)) == b"x" * size


@pytest.mark.parametrize(
    ("environ", "status"),
    [
        ({"CONTENT_LENGTH": "99"}, 413),
        ({"CONTENT_LENGTH": "-1"}, 400),
        ({"CONTENT_LENGTH": "ten"}, 400),
        ({"CONTENT_LENGTH": "9", "wsgi.input": io.BytesIO(b"short")}, 400),
    ],
)
def test_a_body_that_is_not_what_it_says_is_refused(environ, status):
    line = Line(**environ)
    line.ask(protected(None, request_limit=50))
    assert line.status == status


def test_a_body_without_a_length_is_read_where_the_server_ends_it():
    line = Line(**{"CONTENT_LENGTH": "", "wsgi.input": io.BytesIO(b"chunked"), "wsgi.input_terminated": True})
    assert line.ask(protected(plain)) == b"chunked"
    line = Line(
        **{"CONTENT_LENGTH": "", "wsgi.input": Input(b"not ours", 0), "HTTP_IDEMPOTENCY_KEY": "other"}
    )
    assert line.ask(protected(plain)) == b""


def test_what_is_not_guarded_is_handed_on_unread():
    line = Line(REQUEST_METHOD="GET")
    seen = []

    def app(*arguments):
        seen.append(arguments)
        return []

    protected(app)(line.environ, line.start_response)
    assert seen == [(line.environ, line.start_response)]


def test_what_is_written_is_kept_too():
    def app(environ, start_response):
        write = start_response("200 OK", [])
        write(b"one ")
        write(b"two ")
        return [b"three"]

    middleware = protected(app)
    for _ in range(2):
        line = Line()
        assert line.ask(middleware) == b"one two three"
    assert line.headers["Idempotent-Replayed"] == "true"


def test_an_app_may_start_when_it_is_iterated():
    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "4")])
        yield b"done"

    middleware = protected(app)
    for _ in range(2):
        line = Line()
        assert line.ask(middleware) == b"done"
    assert line.headers["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize("length", [{}, {"Content-Length": "6"}])
def test_what_is_too_large_goes_out_as_it_comes(length):
    def app(environ, start_response):
        write = start_response("200 OK", list(length.items()))
        write(b"123")
        return [b"456"]

    middleware = protected(app, response_limit=4)
    line = Line()
    assert line.ask(middleware) == b"123456"
    assert line.headers["Idempotency-Stored"] == "false"
    again = Line()
    again.ask(middleware)
    assert again.status == 409


def test_what_is_too_large_is_seen_though_it_starts_late():
    class Late(list):
        def __iter__(self):
            self.start_response("200 OK", [])
            yield from super().__iter__()

    def app(environ, start_response):
        response = Late([b"12345"])
        response.start_response = start_response
        return response

    line = Line()
    assert line.ask(protected(app, response_limit=4)) == b"12345"
    assert line.headers["Idempotency-Stored"] == "false"


def test_a_response_is_closed_once():
    closed = []

    class Closing(list):
        def close(self):
            closed.append(True)

    def app(environ, start_response):
        start_response("200 OK", [])
        return Closing([b"done"])

    Line().ask(protected(app))
    assert closed == [True]


@pytest.mark.parametrize(("on_error", "runs"), [("reopen", 2), ("store", 1)])
def test_what_becomes_of_errors(on_error, runs):
    ran = []

    def app(environ, start_response):
        ran.append(1)
        raise RuntimeError("broken")

    middleware = protected(app, on_error=on_error)
    for _ in range(2):
        line = Line()
        if on_error == "reopen":
            with pytest.raises(RuntimeError):
                line.ask(middleware)
        else:
            line.ask(middleware)
            assert line.status == 500
    assert len(ran) == runs


def test_an_interrupted_handler_does_not_give_the_key_back():
    def app(environ, start_response):
        raise SystemExit

    middleware = protected(app)
    with pytest.raises(SystemExit):
        Line().ask(middleware)
    again = Line()
    again.ask(middleware)
    assert again.status == 409


def test_a_length_may_have_leading_zeros():
    line = Line(b"hello", CONTENT_LENGTH="0" * 25 + "5")
    assert line.ask(protected(plain)) == b"hello"


def test_an_app_that_starts_anew_takes_back_what_it_said():
    def app(environ, start_response):
        write = start_response("200 OK", [("Content-Length", "7")])
        write(b"partial")
        try:
            raise RuntimeError("broken")
        except RuntimeError:
            start_response("402 Payment Required", [("Content-Length", "5")], sys.exc_info())
        return [b"error"]

    middleware = protected(app)
    for _ in range(2):
        line = Line()
        assert (line.ask(middleware), line.status) == (b"error", 402)


def test_an_end_that_fails_too_does_not_keep_the_key():
    ran = []

    class Broken(list):
        def __iter__(self):
            raise RuntimeError("broken")

        def close(self):
            raise RuntimeError("and not closed")

    def app(environ, start_response):
        ran.append(1)
        start_response("200 OK", [])
        return Broken()

    middleware = protected(app)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            Line().ask(middleware)
    assert len(ran) == 2


def test_a_server_may_use_its_environ_again():
    ran = []

    def app(environ, start_response):
        ran.append(1)
        start_response("200 OK", [])
        return [b"done"]

    middleware, line = protected(app), Line()
    assert [line.ask(middleware) for _ in range(2)] == [b"done", b"done"]
    assert len(ran) == 1


def test_an_app_that_is_guarded_twice_runs_once():
    ran = []

    def app(environ, start_response):
        ran.append(1)
        start_response("200 OK", [])
        return [b"done"]

    options = {"store": "memory://wsgi-twice"}
    middleware = protected(protected(app, **options), **options)
    assert [Line().ask(middleware) for _ in range(2)] == [b"done", b"done"]
    assert len(ran) == 1


@pytest.mark.parametrize("status", [401, 201])
def test_a_scope_that_knows_nobody_leaves_it_to_the_app(status, caplog):
    ran = []

    def app(environ, start_response):
        ran.append(1)
        start_response(f"{status} Said", [])
        return [b""]

    guarded = protected(app, scope=lambda request: None)
    for _ in range(2):
        line = Line()
        line.ask(guarded)
        assert line.status == status
    assert len(ran) == 2
    assert caplog.text.count("without a guard") == (status == 201)


@pytest.mark.parametrize("option", ["scope", "authorize"])
def test_an_http_exception_of_theirs_is_answered_as_such(option):
    def refuse(request):
        raise Unauthorized("who are you?", www_authenticate=WWWAuthenticate("bearer"))

    guarded = protected(plain, **{option: refuse})
    for _ in range(2):
        line = Line(b"body")
        said = line.ask(guarded)
    assert (line.status, line.headers["Www-Authenticate"]) == (401, "Bearer")
    assert b"who are you?" in said


@pytest.mark.parametrize("kept", [True, False])
def test_a_response_without_a_length_is_kept_if_its_end_is_near(kept):
    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"one "
        time.sleep(0 if kept else 0.1)
        yield b"two"

    guarded = protected(app, stream_after="50ms")
    lines = [Line(), Line()]
    first, again = [line.ask(guarded) for line in lines]
    assert first == b"one two"
    assert lines[1].status == (200 if kept else 409)
    assert again == first if kept else b"already-completed" in again


def test_what_compresses_inside_is_told_that_nobody_accepts_it():
    seen = []

    def app(environ, start_response):
        seen.append(environ.get("HTTP_ACCEPT_ENCODING"))
        return plain(environ, start_response)

    line = Line(HTTP_ACCEPT_ENCODING="gzip")
    line.ask(protected(app))
    assert seen == [None]
    assert line.environ["HTTP_ACCEPT_ENCODING"] == "gzip"  # for what compresses outside


def test_a_server_need_not_have_a_write_function():
    """As the protocol wants it, and not all servers have it."""

    class Bare(Line):
        def start_response(self, status, headers, exc_info=None):
            super().start_response(status, headers)

    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"one "
        time.sleep(0.1)
        yield b"two "
        yield b"three"

    assert Bare().ask(protected(app, stream_after="50ms")) == b"one two three"
    assert Bare().ask(protected(app, response_limit=5)) == b"one two three"
