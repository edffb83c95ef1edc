"""Claims that were sent twice, because the reply to the first copy was lost, while that copy may still be under way.

The store knows both by their token, as long as the record has it. Once the owner has failed or handed back, and somebody
else has done the same, it does not: a copy that comes then would be granted to nobody. It cannot come after the moment
its caller would have given up. So such a claim is not ended before that, unless it is done for good.
"""

import time
from collections.abc import Iterable, Sequence

from dupeproof.core.records import ClaimRequest, Fail, Finish, Release
from dupeproof.stores.runtime_async import sleep


class AsyncRepeats:
    def __init__(self) -> None:
        self.noted: dict[bytes, float] = {}
        """Until when a copy of a claim may take effect, by its token."""

    def note(self, requests: Iterable[ClaimRequest], until: float) -> None:
        """These were sent again; no copy of them takes effect after `until`, by the clock of this process."""
        now = time.monotonic()
        for token in [token for token, over in list(self.noted.items()) if over < now]:
            self.noted.pop(token, None)
        self.noted.update((request.token, until) for request in requests)

    def forget(self, changes: Sequence[Finish]) -> None:
        for change in changes:
            self.noted.pop(change.token, None)

    async def outlive(self, changes: Sequence[Fail] | Sequence[Release]) -> None:
        """Wait until no copy of these claims can be under way any more; nearly always there is none."""
        if self.noted:
            until = max(self.noted.pop(change.token, 0.0) for change in changes) if changes else 0.0
            await sleep(max(0.0, until - time.monotonic()))
