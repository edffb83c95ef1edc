"""Claims that are owned by a call on the stack of this very process: alive as long as that call is.

Such a claim needs no token, no lease and no heartbeat. The owner is an object only the call itself holds. When the call
is gone without a word, or the record is looked at from a forked child, the record's lease decides, as for any other.
"""

from weakref import ref

from dupeproof import forks
from dupeproof.core.records import Record
from dupeproof.core.states import State


class _ThisProcess:
    """Its `mark` is another one in every forked child."""

    def __init__(self) -> None:
        self.after_fork()
        forks.reset_in_children(self)

    def after_fork(self) -> None:
        self.mark = object()


this_process = _ThisProcess()


class Owner:
    """Held by the call. What it began is still its own if the store holds this very record."""

    __slots__ = ("__weakref__", "record")
    record: Record


class Owned(Record, frozen=True, gc=False, kw_only=True):
    owner: "ref[Owner]"
    process: object

    def situation(self, now: int) -> State:
        if self.owner() is not None and self.process is this_process.mark:
            return State.RUNNING
        return super().situation(now)
