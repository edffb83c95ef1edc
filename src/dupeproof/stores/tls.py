"""TLS by URL, with the same options for every server, and what its failures mean.

`?cafile=ca.pem` names the authority that the server's certificate is of, where the system does not know it;
`certfile=` and `keyfile=` are the client's own; `verify=no` takes any certificate of anybody.
"""

import socket
import ssl
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct

from dupeproof.errors import ConfigError
from dupeproof.stores.urls import redact

_FILES = ("cafile", "certfile", "keyfile")
OPTIONS = (*_FILES, "verify")
_VERIFY = {"yes": True, "no": False}
_PROBE_SECONDS = 2.0
_ALERT = b"\x15"
"""How the answer begins of one who expected TLS."""
_OUTAGES = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""A connection that ends in the middle of a handshake, as those to a server that is shut down do."""


class Tls(Struct, frozen=True):
    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """Raises `ConfigError` for files that cannot be read."""
        what = f"cafile={self.cafile}"
        try:
            context = ssl.create_default_context(cafile=self.cafile)
            if self.certfile:
                what = f"certfile={self.certfile}" + (f", keyfile={self.keyfile}" if self.keyfile else "")
                context.load_cert_chain(self.certfile, self.keyfile)
        except OSError as exc:
            raise ConfigError(f"a file for TLS cannot be read ({what}): {exc.strerror or exc}") from exc
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def take_tls(url: str, scheme: str) -> tuple[str, Tls | None]:
    """The URL without these options, and what they say; None where the URL is not of that scheme, which is the one with TLS."""
    place, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    ours = {name: value for name, value in pairs if name in OPTIONS}
    is_tls = place.partition("://")[0] == scheme
    if not ours and not is_tls:
        return url, None
    if not is_tls:
        raise ConfigError(
            f"{redact(url)!r} has {', '.join(f'{name}=' for name in ours)}, which is for TLS; write {scheme}://"
        )
    others = [pair for pair in pairs if pair[0] not in OPTIONS]
    rest = f"{place}?{urlencode(others)}" if others else place
    return rest if ours else url, tls_of(ours)


def tls_of(options: dict[str, str]) -> Tls:
    """From the options of a URL."""
    verify = options.get("verify", "yes")
    if verify not in _VERIFY:
        raise ConfigError(f"verify must be yes or no; got {verify!r:.40}")
    files = {name: options[name] for name in _FILES if options.get(name)}
    if "keyfile" in files and "certfile" not in files:
        raise ConfigError("keyfile= is the key of certfile=, which is missing")
    return Tls(**files, verify=_VERIFY[verify])


def tls_fault(exc: BaseException | None, url: str, plain: str) -> ConfigError | None:
    """What is wrong, if TLS is what failed and trying again would not help. `plain` is the scheme without it."""
    for each in _within(exc):
        if isinstance(each, ssl.SSLError) and not isinstance(each, _OUTAGES):
            return ConfigError(f"{redact(url)} {explained(each, plain)}")
    return None


def explained(exc: ssl.SSLError, plain: str) -> str:
    """What a server does that TLS fails, and what to do."""
    reason = exc.reason or type(exc).__name__
    if isinstance(exc, ssl.SSLCertVerificationError):
        why = exc.verify_message.rstrip(".")
        if "mismatch" in why.lower():
            return f"shows a certificate for other names: {why}; connect by a name that is in the certificate"
        if "expired" in why:
            return f"shows a certificate that is out of date: {why}; renew it"
        return f"shows a certificate that cannot be verified: {why}; name its authority with ?cafile=/path/to/ca.pem"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason or "BAD_CERTIFICATE" in reason:
        return f"wants a certificate of the client ({reason}); give certfile= and keyfile="
    if "UNKNOWN_CA" in reason:
        return (
            f"does not know the authority of our certificate ({reason}); give another certfile= and keyfile="
        )
    return f"cannot agree on TLS ({reason}); if it speaks none on this port, write {plain} in the address"


def speaks_tls(host: str, port: int) -> bool:
    """Whether the server takes a connection with TLS. To tell a wrong address from a server that is going down."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), _PROBE_SECONDS) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def shown_to(host: str, port: int, context: ssl.SSLContext) -> ssl.SSLError | None:
    """What TLS fails with there, if it does. For drivers that keep it to themselves; None also where nobody is reached."""
    try:
        with (
            socket.create_connection((host, port), _PROBE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except _OUTAGES:
        return None
    except ssl.SSLError as exc:
        return exc
    except OSError:
        return None


def answers_plainly(host: str, port: int, words: bytes) -> bool:
    """Whether the server answers these words without TLS."""
    try:
        with socket.create_connection((host, port), _PROBE_SECONDS) as plain:
            plain.sendall(words)
            return plain.recv(1) not in (b"", _ALERT)
    except OSError:
        return False


def has_no_tls(url: str, plain: str) -> ConfigError:
    return ConfigError(f"{redact(url)} speaks no TLS on this port; write {plain} in the address")


def needs_tls(url: str, scheme: str) -> ConfigError:
    return ConfigError(f"{redact(url)} speaks TLS on this port; write {scheme} in the address")


def _within(exc: BaseException | None, depth: int = 6) -> Iterator[BaseException]:
    """The error and those it came of, wherever its library has put them."""
    if exc is None or depth == 0:
        return
    yield exc
    inner = [exc.__cause__, exc.__context__, getattr(exc, "exception", None), *exc.args]
    inner += getattr(exc, "exceptions", ())
    for each in inner:
        if isinstance(each, BaseException):
            yield from _within(each, depth - 1)
