"""Claims that are owned by a call on the stack of this very process: alive as long as that call is.

Such a claim needs no token, no lease and no heartbeat. The owner is an object only the call itself holds. When the call
is gone without a word, or the record is looked at from a forked child, the record's lease decides, as for any other.
"""

import os
from weakref import ref

from dupeproof.core.records import Record
from dupeproof.core.states import State

this_process = object()
"""Another one in every forked child; the process id would cost a system call."""


def _after_fork() -> None:
    global this_process  # noqa: PLW0603 - that is its use
    this_process = object()


os.register_at_fork(after_in_child=_after_fork)


class Owner:
    """Held by the call. What it began is still its own if the store holds this very record."""

    __slots__ = ("__weakref__", "record")
    record: Record


class Owned(Record, frozen=True, gc=False, kw_only=True):
    owner: "ref[Owner]"
    process: object

    def situation(self, now: int) -> State:
        if self.owner() is not None and self.process is this_process:
            return State.RUNNING
        return super().situation(now)
