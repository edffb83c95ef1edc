"""What views of Flask may do, decorated."""

import io
from operator import attrgetter, methodcaller

import pytest
from flask import Flask, Response, abort, request
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from dupeproof.errors import ConfigError
from dupeproof.http import SHARED
from dupeproof.http.flask import Idempotent
from dupeproof.http.wsgi import IdempotencyMiddleware

KEY = {"Idempotency-Key": "k"}


class Shop(Flask):
    """An app with one view, which counts its runs."""

    def __init__(self, view, **options):
        super().__init__(__name__)
        self.runs = 0
        self.idempotent = Idempotent(**{"store": "memory://", "scope": SHARED, **options})

        def counted():
            self.runs += 1
            return view()

        self.post("/")(self.idempotent(counted))

    def ask(self, **given):
        return Client(self, Response).post("/", headers=KEY, buffered=True, **given)


def upload():
    return {"note": request.form["note"], "size": len(request.files["file"].read())}


@pytest.mark.parametrize("parsed_before", [False, True])
def test_uploads_are_compared_by_their_parts(parsed_before):
    app = Shop(upload)
    if parsed_before:
        app.before_request(lambda: request.form and None)

    def post(content):
        return app.ask(data={"note": "n", "file": (io.BytesIO(content), "a.txt")})

    assert post(b"12345").json == {"note": "n", "size": 5}
    assert post(b"12345").headers["Idempotent-Replayed"] == "true"
    assert post(b"54321").status_code == 422
    assert app.runs == 1


@pytest.mark.parametrize("parsed_before", [False, True])
def test_forms_are_compared_by_their_fields(parsed_before):
    app = Shop(lambda: request.form["amount"])
    if parsed_before:  # as a guard against forged forms does
        app.before_request(lambda: request.form and None)
    answers = [app.ask(data={"amount": amount}) for amount in ("1", "1", "2")]
    assert [answer.status_code for answer in answers] == [200, 200, 422]
    assert answers[1].text == "1"
    assert app.runs == 1


LOOKS = {
    "nothing": id,
    "data": methodcaller("get_data"),
    "json": methodcaller("get_json"),
    "form": attrgetter("form"),
}


@pytest.mark.parametrize("read_before", LOOKS)
def test_a_view_reads_what_was_read_before(read_before):
    app = Shop(lambda: {"whole": request.get_data().decode(), "parsed": request.get_json()})

    @app.before_request
    def look():
        LOOKS[read_before](request)

    assert app.ask(json={"a": 1}).json == {"whole": '{"a": 1}', "parsed": {"a": 1}}
    assert app.ask(json={"a": 2}).status_code == 422
    assert app.runs == 1


def test_what_was_read_away_is_not_taken_for_empty():
    app = Shop(lambda: "done")
    app.before_request(lambda: request.stream.read() and None)
    app.testing = True
    with pytest.raises(ConfigError, match="get_data"):
        app.ask(json={"a": 1})
    assert app.runs == 0


def test_an_upload_that_was_read_before_is_compared_too():
    app = Shop(lambda: str(len(request.files["file"].read())))
    app.before_request(lambda: request.files["file"].read() and None)
    answers = [app.ask(data={"file": (io.BytesIO(content), "a.txt")}) for content in (b"123", b"456")]
    assert (answers[0].text, answers[1].status_code) == ("3", 422)


class Endless(io.RawIOBase):
    """A body that is sent for as long as somebody reads."""

    def __init__(self):
        self.sent = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.sent += len(buffer)
        return len(buffer)


def test_a_body_without_a_length_is_read_up_to_the_limit():
    app = Shop(lambda: "done", request_limit=100_000)
    body = Endless()
    environ = {"wsgi.input": body, "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    assert app.ask(environ_overrides=environ).status_code == 413
    assert body.sent < 1_000_000
    assert app.runs == 0


def test_apps_below_different_paths_are_different():
    apps = {f"/{name}": Shop(lambda: "done", store="memory://flask-mounted") for name in "ab"}
    client = Client(DispatcherMiddleware(Flask(__name__), apps), Response)
    answers = [client.post(f"{path}/", headers=KEY).status_code for path in ("/a", "/a", "/b")]
    assert answers == [200, 200, 422]


class Unpaid(Exception):
    pass


@pytest.mark.parametrize(("status", "runs"), [(404, 1), (409, 2), (422, 2)])
@pytest.mark.parametrize(
    ("how", "on_error"),
    [
        ("a handler of the app's", "reopen"),
        ("a handler of the app's", "store"),
        ("abort", "reopen"),
        ("abort", "store"),
        ("abort", "hold"),
    ],
)
def test_what_the_app_has_an_answer_for_is_an_answer(how, status, runs, on_error):
    def view():
        if how == "abort":
            abort(status)
        raise Unpaid

    app = Shop(view, on_error=on_error)
    app.register_error_handler(Unpaid, lambda _error: ("no", status))
    assert [app.ask().status_code for _ in range(2)] == [status, status]
    assert app.runs == runs


def test_an_error_that_the_app_has_a_handler_for_is_a_failure_all_the_same_where_all_errors_hold():
    def view():
        raise Unpaid

    app = Shop(view, on_error="hold")
    app.register_error_handler(Unpaid, lambda _error: ("no", 404))
    assert [app.ask().status_code for _ in range(2)] == [404, 409]
    assert app.runs == 1


def test_any_other_error_is_a_failure():
    def view():
        raise RuntimeError("broken")

    app = Shop(view)
    assert [app.ask().status_code for _ in range(2)] == [500, 500]
    assert app.runs == 2


@pytest.mark.parametrize("outer", ["decorator", "middleware"])
def test_a_view_that_is_guarded_twice_runs_once(outer):
    store = f"memory://flask-twice-{outer}"
    app = Shop(lambda: "done", store=store)
    if outer == "middleware":
        app.wsgi_app = IdempotencyMiddleware(app.wsgi_app, store=store, scope=SHARED)
    else:
        [name] = [name for name in app.view_functions if name != "static"]
        app.view_functions[name] = app.idempotent(app.view_functions[name])
    assert [app.ask().text for _ in range(2)] == ["done", "done"]
    assert app.runs == 1


def test_a_scope_that_aborts_is_answered_by_the_app():
    app = Shop(lambda: "done", scope=lambda request: abort(401))
    app.register_error_handler(401, lambda error: ("who are you?", 401))
    response = app.ask()
    assert (response.status_code, response.text) == (401, "who are you?")
    assert app.runs == 0


def test_who_may_not_see_a_response_any_more_is_not_given_it():
    app = Shop(lambda: "done", authorize=lambda request: False)
    assert [app.ask().status_code for _ in range(2)] == [200, 403]


@pytest.mark.parametrize(
    ("size", "headers", "kept"), [(9, {}, True), (999, {}, False), (9, {"X-Accel-Buffering": "no"}, False)]
)
def test_a_streamed_response_is_kept_if_it_is_small(size, headers, kept):
    pieces = [b"x" * size, b"y"]
    app = Shop(lambda: Response(iter(pieces), headers=headers), response_limit=100)
    first, again = app.ask(), app.ask()
    assert first.data == b"".join(pieces)
    assert again.data == first.data if kept else again.status_code == 409
