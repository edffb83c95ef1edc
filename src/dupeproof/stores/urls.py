"""Store URLs: parsed once, options checked, secrets never shown."""

import re
from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qsl, urlsplit

from msgspec import Struct

from dupeproof import defaults
from dupeproof.core.durations import milliseconds
from dupeproof.errors import ConfigError
from dupeproof.sql.database_option import without_driver

_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
_BETWEEN_TIERS = re.compile(r"\s*\+\s*(?=(?:postgresql|postgres|sqlite|memory)(?:\+\w+)?://)")
_SETTING = re.compile(r"\s*=\s*(?:'[^']*'|\S+)")
_LIBPQ = ("postgresql://", "postgres://")
_HIDDEN = "***"
_NAMES_USERS = ("postgresql", "postgres", "mysql", "mariadb", "amqp", "amqps")
"""What stands alone before the @ is a user here; elsewhere it may be a token, or a password without its colon."""


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
        given = self.options.get("timeout", defaults.STORE_TIMEOUT)
        return milliseconds(float(given) if _NUMBER.fullmatch(given) else given, name="timeout") / 1_000

    def __str__(self) -> str:
        # Not urlunsplit, which leaves out the slashes before an empty host.
        scheme = self.scheme and f"{self.scheme}://"
        query = self.parts.query and f"?{self.parts.query}"
        return redact(f"{scheme}{self.parts.netloc}{self.parts.path}{query}")


def parse_url(url: str) -> StoreURL:
    url = without_driver(url)
    try:
        parts = _libpq_split(url) if url.startswith(_LIBPQ) else urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as exc:
        raise ConfigError(f"{redact(url)!r} is not a URL dupeproof can read: {exc}") from None
    return StoreURL(parts.scheme, parts, dict(pairs))


def _libpq_split(url: str) -> SplitResult:
    """As libpq does it, for which a fragment is nothing special, nor are several hosts in brackets."""
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    netloc, slash, path = place.partition("/")
    return SplitResult(scheme, netloc, slash + path, query, "")


def split_tiers(url: str) -> list[str]:
    """`redis://…+postgresql://…` is two URLs, any other is one. Not at every plus: there is redis+sentinel://…"""
    return _BETWEEN_TIERS.split(url)


def redact(url: str) -> str:
    """The URL without its secrets, fit to be printed; also one that is not quite a URL. In doubt it shows less."""
    return "+".join(map(_redacted, split_tiers(url)))


def _redacted(url: str) -> str:
    if "://" not in url and _SETTING.search(url):  # as libpq takes it: host=… password=…
        return _SETTING.sub(f"={_HIDDEN}", url)
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    # A password may hold what ought to be escaped: everything up to the last @ counts as credentials.
    userinfo, at, place = ("", "", rest) if rest.startswith("/") else rest.rpartition("@")
    before, question, _ = userinfo.partition("?")
    if question and ("/" in before or ":" not in before):  # the @ may be one of the options
        return f"{scheme}{separator}…"
    user, colon, _ = userinfo.partition(":")
    if at and not colon and scheme not in _NAMES_USERS:
        user = _HIDDEN
    place, question, _ = place.partition("?")
    return f"{scheme}{separator}{user}{colon and f':{_HIDDEN}'}{at}{place}{question and '?…'}"
