"""What a form brought, and what a page is made of."""

from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dupeproof.console.request_limits import desk_of
from dupeproof.core.durations import about
from dupeproof.errors import ConfigError

SHOWN_DIGITS = 12
_MOST_BYTES = 128 * 1024
_MOST_FIELDS = 100


async def fields(request: Request) -> dict[str, str]:
    """By name; what was chosen of several is joined by spaces."""
    found: dict[str, str] = {}
    for name, value in await _pairs(request):
        found[name] = f"{found[name]} {value}" if name in found else value
    return found


async def _pairs(request: Request) -> list[tuple[str, str]]:
    """Read here and not by Starlette, which wants another library even for this plain kind of form."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            raise ConfigError(f"a form here has at most {_MOST_BYTES:,} bytes")
    try:
        # Strictly: a byte that is no text would be read as another one, and so as another key.
        return parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as exc:
        raise ConfigError("this is not a form that the console's own pages send") from exc


def path_to(request: Request, name: str, **parameters: str) -> str:
    """Of one of our pages. Not `url_for`: that asks the app we are mounted in, which does not know them."""
    return f"{request.scope.get('root_path', '')}{request.app.url_path_for(name, **parameters)}"


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    backend = desk_of(request)

    text = (
        _templates()
        .get_template(template)
        .render(
            path=partial(path_to, request),
            here=request.url.path,
            store=backend.name,
            read_only=backend.sessions.read_only,
            session=backend.sessions.of(request),
            **values,
        )
    )
    return HTMLResponse(text, status_code=status)


@lru_cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("dupeproof.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = lambda seconds: "–" if seconds is None else about(int(seconds * 1_000))
    environment.filters["milliseconds"] = lambda value: "–" if value is None else about(value)
    environment.filters["moment"] = lambda at: "–" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["ago"] = lambda at: (
        "–" if at is None else about(max(0, int((datetime.now(UTC) - at).total_seconds() * 1_000)))
    )
    environment.filters["digits"] = lambda digest: digest[:SHOWN_DIGITS]
    environment.filters["calls"] = lambda count, one, many: f"{count:,} {one if count == 1 else many}"
    return environment
