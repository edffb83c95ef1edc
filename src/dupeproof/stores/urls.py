"""Store URLs: parsed once, options checked, secrets never shown."""

import re
from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from msgspec import Struct

from dupeproof.core.durations import milliseconds
from dupeproof.errors import ConfigError

DEFAULT_TIMEOUT = "5s"
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)


class StoreURL(Struct, frozen=True):
    scheme: str
    parts: SplitResult
    options: dict[str, str]

    def take(self, allowed: Iterable[str]) -> dict[str, str]:
        """The options, all of them known; anything else is refused by name."""
        known = sorted(allowed)
        for name in self.options:
            if name not in known:
                raise ConfigError(
                    f"{self.scheme} URLs have no option {name!r}; there are: {', '.join(known) or 'none'}"
                )
        return self.options

    @property
    def timeout(self) -> float:
        """Seconds after which a store that does not answer counts as down."""
        given = self.options.get("timeout", DEFAULT_TIMEOUT)
        return milliseconds(float(given) if _NUMBER.fullmatch(given) else given, name="timeout") / 1_000

    def __str__(self) -> str:
        return redact(urlunsplit(self.parts))


def parse_url(url: str) -> StoreURL:
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as exc:
        raise ConfigError(f"{redact(url)!r} is not a URL dupeproof can read: {exc}") from None
    return StoreURL(parts.scheme, parts, dict(pairs))


def redact(url: str) -> str:
    """The URL with its password and query values hidden, fit to be printed; also one that is not quite a URL."""
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    # A password may hold what ought to be escaped: everything up to the last @ counts as credentials.
    userinfo, at, rest = rest.rpartition("@")
    rest, question, _ = rest.partition("?")
    user, colon, _ = userinfo.partition(":")
    shown = f"{user}:***@" if colon else userinfo + at
    return f"{scheme}{separator}{shown}{rest}{question and '?…'}"
