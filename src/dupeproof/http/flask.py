"""For single views of Flask; for all of an app there is the WSGI middleware."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, Unpack

from dupeproof.core.protocols import Store
from dupeproof.guards import Once
from dupeproof.http._sync.desk import Desk
from dupeproof.http._sync.views import guarded
from dupeproof.http.answers import Answer, Headers
from dupeproof.http.bodies import CHUNK, announced_size, check_size
from dupeproof.http.keeping import can_be_kept
from dupeproof.http.problems import Code, Refused
from dupeproof.http.rules import Options, Scope
from dupeproof.http.views import ReadBody
from dupeproof.http.wsgi_response import decoded

try:
    from flask import Request, Response, current_app, request
    from werkzeug.exceptions import HTTPException, RequestEntityTooLarge
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        'dupeproof.http.flask needs Flask, which is not installed; run: pip install "dupeproof[flask]"',
        name=exc.name,
    ) from exc

__all__ = ["Idempotent"]

P = ParamSpec("P")


class Idempotent:
    """A decorator for views, below the one for the route.

        idempotent = Idempotent(store="redis://…", scope=lambda request: current_user.id)

        @app.post("/orders")
        @idempotent
        def order(): ...

    `scope` is given Flask's request. The other options are those of `dupeproof.http.rules.Options`.
    """

    def __init__(self, *, store: str | Store | Once, scope: Scope, **options: Unpack[Options]) -> None:
        self._desk = Desk(store, scope, options)

    def close(self) -> None:
        """Give up connections, where they are ours. Closing twice is fine."""
        self._desk.close()

    def __call__(self, view: Callable[P, Any]) -> Callable[P, Response]:
        @wraps(view)
        def guarded_view(*args: P.args, **kwargs: P.kwargs) -> Response:
            app = current_app

            def respond() -> Response:
                try:
                    return app.make_response(app.ensure_sync(view)(*args, **kwargs))
                except HTTPException as exc:  # abort(409) is an answer, not a failure
                    return app.make_response(app.handle_http_exception(exc))

            return guarded(self._desk, _Incoming(request), _FLASK, respond)

        return guarded_view


class _Incoming:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.method = request.method
        self.path = request.path
        self.query = request.query_string

    def key_values(self, header: str) -> Sequence[str]:
        return self.request.headers.getlist(header)

    def body(self, limit: int) -> ReadBody:
        request = self.request
        announced_size(request.headers.get("Content-Length"), limit)
        content_type = request.headers.get("Content-Type", "").encode("latin-1", "replace")
        if "form" in request.__dict__ and request.mimetype == "multipart/form-data":
            # Somebody has parsed it already, and nothing is left to read.
            return ReadBody(b"multipart/form-data", _parsed(request))
        try:
            data = request.get_data(cache=True)
        except RequestEntityTooLarge as exc:
            raise Refused(Code.BODY_TOO_LARGE) from exc
        check_size(len(data), limit)
        return ReadBody(content_type, (data,))


def _parsed(request: Request) -> Iterable[bytes]:
    for name, value in request.form.items(multi=True):
        yield repr((name, value)).encode("utf-8", "surrogatepass")
    for name, file in request.files.items(multi=True):
        yield repr((name, file.filename, file.content_type)).encode("utf-8", "surrogatepass")
        while chunk := file.stream.read(CHUNK):
            yield chunk
        file.stream.seek(0)


class _Flask:
    def respond(self, answer: Answer) -> Response:
        return current_app.response_class(answer.body, answer.status, decoded(answer.headers))

    def seen(self, response: Response, limit: int) -> Answer:
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in response.get_wsgi_headers(request.environ)
        ]
        kept = can_be_kept(response.status_code, headers, limit, goes_on=response.is_streamed)
        if kept:
            response.direct_passthrough = False  # a file is read
        body = response.get_data() if kept else None
        return Answer(response.status_code, headers, body)

    def add(self, response: Response, headers: Headers) -> None:
        for name, value in decoded(headers):
            response.headers.add(name, value)


_FLASK = _Flask()
