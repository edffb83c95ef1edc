"""The driver's errors in our words."""

from types import TracebackType

from redis import exceptions as theirs

from dupeproof.errors import StoreUnavailable


class NotSent(theirs.ConnectionError):
    """There is no connection, so nothing was sent; says why."""


class RefusedForNow(theirs.ResponseError):
    """The server does nothing for anybody just now: too few replicas, a failed snapshot, a script that takes long."""


class Late(theirs.ResponseError):
    """The server came to the command after its caller's time, as far as its clock was known, and did nothing."""


NOT_RUN = (
    NotSent,
    RefusedForNow,
    theirs.BusyLoadingError,
    theirs.ClusterDownError,
    theirs.MasterDownError,
    theirs.ReadOnlyError,
    theirs.TryAgainError,
)
"""Nothing was done; the call can always be sent again."""
REFUSED = (*NOT_RUN, Late, theirs.AskError, theirs.MovedError, theirs.NoScriptError)
"""The same, and where to go or what to send instead is known."""
CONNECTION_LOST = (theirs.ConnectionError, theirs.ClusterError)
"""The command may or may not have been carried out; verbs that can be repeated are."""
FAULTS = (theirs.RedisError, OSError)
"""All that a link may raise."""

_ADVICE: list[tuple[type[Exception] | tuple[type[Exception], ...], str]] = [
    (theirs.AuthenticationError, "refused the user name or password; check the credentials in the URL"),
    (
        theirs.NoPermissionError,
        (
            "does not let this user run what dupeproof needs; grant ~d?{?}* +@read +@write +@scripting +select +time +role +info "
            "+cluster|slots"
        ),
    ),
    (theirs.ReadOnlyError, "is a read-only replica; point the URL at the primary"),
    (theirs.OutOfMemoryError, "is out of memory; raise maxmemory or shorten the window"),
    (theirs.BusyLoadingError, "is still loading its data"),
    ((theirs.TimeoutError, Late), "did not answer in time"),
    (theirs.ConnectionError, "cannot be reached"),
    ((theirs.ClusterError, theirs.ClusterDownError), "has no working node for this key"),
]


class translated:  # noqa: N801 - used as a function; as a generator it would cost as much as packing the command
    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(exc, FAULTS):
            raise unavailable(self._url, exc) from exc


def unavailable(url: str, exc: Exception) -> StoreUnavailable:
    if isinstance(exc, theirs.RedisError):
        return StoreUnavailable(f"Redis at {url} {_advice(exc)}", refused=_refused(exc))
    return StoreUnavailable(f"Redis at {url} cannot be reached: {type(exc).__name__}")


_VALUE_TOO_LARGE = ("maximum allowed size", "invalid bulk length")


def _refused(exc: Exception) -> bool:
    """Whether the value itself is what the server will not take. Everything else may pass."""
    return isinstance(exc, theirs.ResponseError) and any(text in str(exc) for text in _VALUE_TOO_LARGE)


def _advice(exc: Exception) -> str:
    if isinstance(exc, NotSent):
        return str(exc)
    if "syntax error" in str(exc):
        return "is older than version 7.0, which dupeproof needs (SET with NX and GET)"
    for kind, text in _ADVICE:
        if isinstance(exc, kind):
            # "invalid password" also arrives as a plain connection error, wrapped.
            return text if "WRONGPASS" not in str(exc) and "NOAUTH" not in str(exc) else _ADVICE[0][1]
    return f"answered with an error: {exc}"
