"""For single views of Flask; for all of an app there is the WSGI middleware."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import IO, Any, ParamSpec, Unpack
from weakref import finalize

from dupeproof.core.protocols import Store
from dupeproof.errors import ConfigError
from dupeproof.guards import Once
from dupeproof.http.answers import Answer, Headers
from dupeproof.http.bodies import CHUNK, Body, announced_size, check_size
from dupeproof.http.fingerprints import form_digests
from dupeproof.http.handler_context import current
from dupeproof.http.problems import Code, Refused
from dupeproof.http.request_policy import RequestPolicy
from dupeproof.http.rules import Options, Rules, Scope
from dupeproof.http.statuses import can_be_kept, has_length, is_unbuffered
from dupeproof.http.view_adapters import READ_BEFORE, ReadBody, read_whole
from dupeproof.http.views import guarded
from dupeproof.http.wsgi import decoded
from dupeproof.stores.clients import StoreClient

try:
    from flask import Request, Response, current_app, request
    from werkzeug.exceptions import RequestEntityTooLarge
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        'dupeproof.http.flask needs Flask, which is not installed; run: pip install "dupeproof[flask]"',
        name=exc.name,
    ) from exc

__all__ = ["Idempotent"]

P = ParamSpec("P")
_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded", "application/x-url-encoded")


class Idempotent:
    """A decorator for views, below the one for the route.

        idempotent = Idempotent(store="redis://…", scope=lambda request: current_user.id)

        @app.post("/orders")
        @idempotent
        def order(): ...

    `scope` is given Flask's request. What the app has an error handler for, `abort` among it, is an answer and no failure,
    unless the key is held for it, by `hold_on` or `on_error="hold"`. The other options are those of
    `dupeproof.http.rules.Options`.
    """

    def __init__(
        self, *, store: str | StoreClient | Store | Once, scope: Scope, **options: Unpack[Options]
    ) -> None:
        self._policy = RequestPolicy(store, scope, options)

    def close(self) -> None:
        """Give up connections, where they are ours. Closing twice is fine."""
        self._policy.close()

    def __call__(self, view: Callable[P, Any]) -> Callable[P, Response]:
        @wraps(view)
        def guarded_view(*args: P.args, **kwargs: P.kwargs) -> Response:
            app = current_app

            def respond() -> Response:
                try:
                    response = app.ensure_sync(view)(*args, **kwargs)
                except Exception as exc:
                    handling = current.get()
                    if handling is None:
                        raise
                    handling.saw(exc)
                    response = app.handle_user_exception(exc)  # raised again if the app has no answer to it
                return app.make_response(response)

            asked = request._get_current_object()  # type: ignore[attr-defined] # noqa: SLF001 - not its proxy
            return guarded(self._policy, _Incoming(asked), _FLASK, respond)

        return guarded_view


class _Incoming:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.method = request.method
        self.path = request.root_path + request.path
        self.query = request.query_string
        self.environ = request.environ

    def header_values(self, header: str) -> Sequence[str]:
        return self.request.headers.getlist(header)

    def body(self, limit: int) -> ReadBody:
        request = self.request
        announced = announced_size(request.headers.get("Content-Length"), limit)
        content_type = request.headers.get("Content-Type", "").encode("latin-1", "replace")
        if hasattr(request, "_cached_data"):  # read before, and kept; there is no public way to know
            data = request.get_data()
            check_size(len(data), limit)
            return ReadBody(content_type, (data,))
        if "form" in request.__dict__ and request.mimetype in _FORMS:
            # Somebody has parsed it already, and nothing is left to read.
            files = request.files.items(multi=True)
            heads = (
                ((name, file.filename, file.content_type), _rewound(file.stream)) for name, file in files
            )
            return ReadBody(request.mimetype.encode(), form_digests(request.form.items(multi=True), heads))
        body = _read(request.stream, limit)
        if body.size < (announced or 0):  # had the client left, that would have been an error
            body.close()
            raise ConfigError(READ_BEFORE.format("request.get_data()"))
        # `get_data` would put all of it into memory.
        request.__dict__["stream"] = body.rewound()
        finalize(request, body.close)
        return ReadBody(content_type, body.then_rewound())


def _read(stream: IO[bytes], limit: int) -> Body:
    body = Body(limit)
    try:
        while chunk := stream.read(CHUNK):
            body.add(chunk)
    except RequestEntityTooLarge as exc:
        body.close()
        raise Refused(Code.BODY_TOO_LARGE) from exc
    except BaseException:
        body.close()
        raise
    return body


def _rewound(file: IO[bytes]) -> Iterator[bytes]:
    """The chunks of an upload, whoever has read it before, and then it is at its beginning again."""
    file.seek(0)
    while chunk := file.read(CHUNK):
        yield chunk
    file.seek(0)


class _Flask:
    def respond(self, answer: Answer) -> Response:
        return current_app.response_class(answer.body, answer.status, decoded(answer.headers))

    def status(self, response: Response) -> int:
        return response.status_code

    def seen(self, response: Response, rules: Rules) -> Answer:
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in response.get_wsgi_headers(request.environ)
        ]
        return Answer(response.status_code, headers, self._kept(response, headers, rules))

    def _kept(self, response: Response, headers: Headers, rules: Rules) -> bytes | None:
        streams = response.is_streamed
        if not can_be_kept(response.status_code, headers, rules.response_limit):
            return None
        if streams and is_unbuffered(headers):
            return None
        response.direct_passthrough = False  # a file is read
        if not streams or has_length(headers):
            return response.get_data()
        body, chunks = read_whole(response.iter_encoded(), rules)
        response.response = chunks if body is None else [body]
        return body

    def add(self, response: Response, headers: Headers) -> None:
        for name, value in decoded(headers):
            response.headers.add(name, value)


_FLASK = _Flask()
