# Written by tools/twins.py from src/dupeproof/guards/journal_async.py; change that file instead.
"""The steps of one claim: each runs once over all attempts of the call, and what is known of them is kept with its record.

Crash points: before a step is noted as begun, nothing of it. From there until it is noted as done, a step that is begun:
it may have happened, and runs again when the call does, unless a lookup knows its result. After that, a step that is done.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from dupeproof.core.codecs import Codec
from dupeproof.core.protocols import Store
from dupeproof.core.records import Renew
from dupeproof.errors import ClaimLost, ConfigError, StoreUnavailable
from dupeproof.guards.functions import KnownReturns
from dupeproof.guards.lookups import Done
from dupeproof.guards.results import replay
from dupeproof.guards.runtime import Lock, awaited, sleep
from dupeproof.guards.steps import Inner, Journal, Step, current, read_journal, same_name, write_journal

_PAUSE = 0.25


class Owner(Protocol):
    """The claim whose steps these are."""

    def renewal(self) -> Renew: ...

    def encoded(self, value: Any, returns: Any, codec: Codec) -> tuple[bytes, str]: ...

    def lose(self, why: str) -> ClaimLost: ...

    def shut(self) -> None: ...


class Steps:
    def __init__(
        self, owner: Owner, store: Store, returns: KnownReturns, codec: Codec, patience: float
    ) -> None:
        self._owner = owner
        self._store = store
        self._returns = returns
        self._codec = codec
        self._patience = patience
        """Seconds for which the end of a step is told to a store that is away."""
        self._turn = Lock()  # one writes the journal at a time
        self._journal: Journal | None = None
        self._met: set[str] = set()

    def run(
        self, path: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], inside: Inner
    ) -> Any:
        returns = self._returns(fn)
        with self._turn:
            if self._journal is None:
                self._journal = self.read()
            journal = self._journal
            if path in self._met:
                raise same_name(path)
            self._met.add(path)
            known = journal.get(path)
            if known is not None and known.done:
                return replay(known.result, known.codec, self._codec, returns)
            journal[path] = Step()
            self._write(0.0)
        outer = current.set(inside)
        try:
            value = awaited(fn(*args, **kwargs))
        finally:
            current.reset(outer)
        done = Step(True, *self._owner.encoded(value, returns, self._codec))
        if self._turn.locked():  # whoever cancels while we wait for our turn must not make it forgotten
            self._note(path, done)
        else:
            self._note(path, done)
        return value

    def _note(self, path: str, done: Step) -> None:
        with self._turn:
            assert self._journal is not None
            self._journal[path] = done
            self._write(self._patience)

    def read(self) -> Journal:
        """A key that was reopened begins with its first attempt again, and may have a journal all the same."""
        [found] = self._store.get([self._owner.renewal().key])
        return read_journal(None if found is None else found.record)

    def settle(self, answer: Done) -> None:
        """Note what a lookup knows of a step that was begun. Raises `ConfigError` if there is no such step."""
        journal = self.read()
        known = journal.get(answer.step or "")
        if known is None or known.done:
            begun = [name for name, step in journal.items() if not step.done]
            raise ConfigError(
                f"the lookup gave Done for the step {answer.step!r}, which is not begun; "
                f"{'begun: ' + ', '.join(begun) if begun else 'no step is begun'}"
            )
        journal[answer.step or ""] = Step(True, self._codec.encode(answer.value, Any), self._codec.name)
        self._journal = journal
        self._write(0.0)

    def _write(self, patience: float) -> None:
        """What has happened is worth repeating for as long as a lease. Else the lease runs out, as if this process had died."""
        give_up = time.monotonic() + patience
        renewal = self._owner.renewal()
        change = Renew(
            renewal.key, renewal.token, renewal.lease, renewal.window, journal=write_journal(self._journal)
        )
        while True:
            try:
                [ours] = self._store.renew([change])
            except StoreUnavailable:
                if time.monotonic() < give_up:
                    sleep(_PAUSE)
                    continue
                if patience:
                    self._owner.shut()
                raise
            break
        if not ours:
            raise self._owner.lose("so this step must not go on")
