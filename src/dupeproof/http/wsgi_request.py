"""The request of a WSGI server, in the words that frameworks have for it."""

from collections.abc import Iterator, Mapping
from typing import Any

Environ = dict[str, Any]
_UNPREFIXED = ("CONTENT_TYPE", "CONTENT_LENGTH")


class WsgiRequest(Mapping[str, Any]):
    """What `scope`, `when`, `key` and `fingerprint` are given: the environ, and the request's head in easier words."""

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.headers = _Headers(environ)
        self.method: str = environ["REQUEST_METHOD"]
        self.path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        self.query: str = environ.get("QUERY_STRING", "")

    def header_values(self, header: str) -> list[str]:
        """The value of a header, in which a WSGI server has joined them all."""
        return [self.headers[header]] if header in self.headers else []

    def __getitem__(self, name: str) -> Any:
        return self.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.environ)

    def __len__(self) -> int:
        return len(self.environ)


class _Headers(Mapping[str, str]):
    """The headers in an environ, by their names in upper or lower case."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        value: str = self._environ[variable_of(name)]
        return value

    def __iter__(self) -> Iterator[str]:
        for variable in self._environ:
            if variable in _UNPREFIXED or variable.startswith("HTTP_"):
                yield variable.removeprefix("HTTP_").replace("_", "-").lower()

    def __len__(self) -> int:
        return sum(1 for _ in self)


def variable_of(header: str) -> str:
    """Under which name a header is in the environ."""
    name = header.upper().replace("-", "_")
    return name if name in _UNPREFIXED else f"HTTP_{name}"
