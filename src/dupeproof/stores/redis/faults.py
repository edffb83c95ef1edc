"""The driver's errors in our words."""

from types import TracebackType

from redis import exceptions as theirs

from dupeproof.errors import StoreUnavailable

NOT_RUN = (theirs.ClusterDownError, theirs.TryAgainError, theirs.BusyLoadingError, theirs.ReadOnlyError)
"""The server said no before it did anything; the call can always be sent again."""
REFUSED = (*NOT_RUN, theirs.AskError, theirs.MovedError, theirs.NoScriptError)
"""The same, and where to go or what to send instead is known."""
CONNECTION_LOST = (theirs.ConnectionError, theirs.ClusterError)
"""The command may or may not have been carried out; verbs that can be repeated are."""
FAULTS = (theirs.RedisError, OSError)
"""All that a link may raise."""

_ADVICE: list[tuple[type[Exception] | tuple[type[Exception], ...], str]] = [
    (theirs.AuthenticationError, "refused the user name or password; check the credentials in the URL"),
    (
        theirs.NoPermissionError,
        "does not let this user run what dupeproof needs; grant ~d?{?}* +@read +@write +@scripting +time +info +cluster|slots",
    ),
    (theirs.ReadOnlyError, "is a read-only replica; point the URL at the primary"),
    (theirs.OutOfMemoryError, "is out of memory; raise maxmemory or shorten the window"),
    (theirs.BusyLoadingError, "is still loading its data"),
    (theirs.TimeoutError, "did not answer in time"),
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


def _refused(exc: Exception) -> bool:
    return isinstance(exc, theirs.ResponseError) and not isinstance(
        exc, (*REFUSED, theirs.AuthenticationError)
    )


def _advice(exc: Exception) -> str:
    if "syntax error" in str(exc):
        return "is older than version 7.0, which dupeproof needs (SET with NX and GET)"
    for kind, text in _ADVICE:
        if isinstance(exc, kind):
            # "invalid password" also arrives as a plain connection error, wrapped.
            return text if "WRONGPASS" not in str(exc) and "NOAUTH" not in str(exc) else _ADVICE[0][1]
    return f"answered with an error: {exc}"
