"""The choices a user makes once for a guard, parsed and checked in one place."""

from collections.abc import Callable
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from dupeproof import defaults
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.records import Terms
from dupeproof.errors import ConfigError

OnBusy = Literal["raise", "wait"]
OnAbandoned = Literal["rerun", "hold"]
OnStoreDown = Literal["raise", "run"]
OnError = Literal["reopen", "hold"]
Errors = type[BaseException] | tuple[type[BaseException], ...]
Lookup = Callable[..., Any]
"""Is asked whether the work of a held or abandoned key has happened."""
_LONGEST_NAME = 200


class Policy(Struct, frozen=True):
    terms: Terms
    wait: float
    """Seconds to wait for a busy key; 0 means raise at once."""
    run_when_down: bool
    beat: float
    """Seconds between two renewals of a claim."""
    hold_on: tuple[type[BaseException], ...] = ()
    """Errors that leave a doubt: the work may have happened, so the key is held. All others reopen it."""
    keep_keys: bool = False
    settle: Lookup | None = None

    def holds(self, error: BaseException) -> bool:
        """Whether the error leaves a doubt. A group does if one of its errors does, and so does what was raised because of one."""
        if isinstance(error, self.hold_on):
            return True
        if isinstance(error, BaseExceptionGroup) and any(map(self.holds, error.exceptions)):
            return True
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return before is not None and self.holds(before)

    @property
    def asked(self) -> Terms:
        """What claims ask for. Where a lookup is asked first, attempts are counted after it."""
        return self.terms if self.settle is None else replace(self.terms, max_attempts=0)

    def changed(
        self,
        *,
        name: str = "",
        window: Duration | None = None,
        lease: Duration | None = None,
        on_error: OnError | None = None,
        hold_on: Errors | None = None,
        keep_keys: bool | None = None,
        settle: Lookup | None = None,
    ) -> "Policy":
        """For one function: what is None stays as the guard has it."""
        terms = replace(self.terms, name=name[:_LONGEST_NAME])
        if window is not None:
            terms = replace(terms, window=milliseconds(window, name="window"))
        if lease is not None:
            terms = replace(terms, lease=milliseconds(lease, name="lease"))
        kept = on_error is None and hold_on is None
        return replace(
            self,
            terms=terms,
            beat=_beat(terms),
            hold_on=self.hold_on if kept else _hold_on(on_error, hold_on),
            keep_keys=self.keep_keys if keep_keys is None else keep_keys,
            settle=self.settle if settle is None else settle,
        )


def make_policy(
    *,
    namespace: str,
    window: Duration,
    lease: Duration,
    on_busy: OnBusy,
    wait: Duration,
    on_abandoned: OnAbandoned,
    max_attempts: int | None,
    on_store_down: OnStoreDown,
    on_error: OnError | None = None,
    hold_on: Errors | None = None,
    keep_keys: bool = False,
    settle: Lookup | None = None,
) -> Policy:
    _one_of("on_busy", on_busy, OnBusy)
    _one_of("on_abandoned", on_abandoned, OnAbandoned)
    _one_of("on_store_down", on_store_down, OnStoreDown)
    patience = milliseconds(wait, name="wait") / 1_000
    terms = Terms(
        namespace=namespace,
        lease=milliseconds(lease, name="lease"),
        window=milliseconds(window, name="window"),
        hold=on_abandoned == "hold",
        max_attempts=_attempts(max_attempts),
    )
    return Policy(
        terms=terms,
        wait=patience if on_busy == "wait" else 0.0,
        run_when_down=on_store_down == "run",
        beat=_beat(terms),
        hold_on=_hold_on(on_error, hold_on),
        keep_keys=keep_keys,
        settle=settle,
    )


def _hold_on(on_error: OnError | None, hold_on: Errors | None) -> tuple[type[BaseException], ...]:
    if on_error is not None:
        _one_of("on_error", on_error, OnError)
    if hold_on is None:
        return (BaseException,) if on_error == "hold" else ()
    if on_error == "hold":
        raise ConfigError('on_error="hold" holds on every error; leave it out, or leave out hold_on=')
    errors = hold_on if isinstance(hold_on, tuple) else (hold_on,)
    for each in errors:
        if type not in type(each).__mro__ or BaseException not in each.__mro__:
            raise ConfigError(
                f"hold_on takes classes of exceptions, as hold_on=(TimeoutError,); got {each!r}"
            )
    return errors


def _beat(terms: Terms) -> float:
    return terms.lease / 1_000 / defaults.HEARTBEATS_PER_LEASE


def _attempts(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ConfigError(
        f"max_attempts must be a whole number of at least 1, or None for no limit; got {value!r}"
    )


def _one_of(name: str, value: object, choices: Any) -> None:
    allowed = get_args(choices)
    if value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
