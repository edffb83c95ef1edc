"""A provider of payments that nobody can rely on: it answers late or not at all, fails before or after it has charged, and
charges again whatever is sent again. What it has charged it knows.
"""

import asyncio
import json
import random
import threading
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

MOODS = {
    "fine": 50,
    "late": 10,
    "lost": 10,
    "charged late": 8,
    "failed before": 8,
    "failed after": 8,
    "refused": 6,
}
"""How it takes a payment, and how often out of a hundred times."""


class Provider:
    """Serves in a thread of its own. `late` are the seconds that are more than its clients wait."""

    def __init__(self, seed: int = 1, late: float = 1.0, moods: Mapping[str, int] | None = None) -> None:
        self.charges: Counter[str] = Counter()
        """How often each order was charged."""
        self.refusals: set[str] = set()
        self.invoices: Counter[str] = Counter()
        """How many invoices each payment has."""
        self.met: Counter[str] = Counter()
        self.strike: Callable[[str, str, int], None] = lambda moment, order, worker: None
        """Is called with "before the charge" or "after the charge", the order, and the process that asks."""
        self._payments: dict[str, dict[str, Any]] = {}
        self._invoices: dict[str, str] = {}
        self._moods = moods or {"fine": 1}
        self._random = random.Random(seed)
        self._next: deque[str] = deque()
        self._late = late
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def start(self) -> "Provider":
        self._thread.start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def stop(self) -> None:
        async def end() -> None:
            assert self._server is not None
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for each in others:
                each.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def next_answers(self, *moods: str) -> None:
        """How it takes the next payments, before it is as it was."""
        self._next.extend(moods)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            answer = await self._answer(method, target, headers, json.loads(body or b"null"))
            if answer is not None:
                status, said = answer
                data = json.dumps(said).encode()
                lines = f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
                writer.write(lines.encode() + data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.met["hung up"] += 1
        finally:
            writer.close()

    async def _answer(
        self, method: str, target: str, headers: dict[str, str], sent: Any
    ) -> tuple[int, Any] | None:
        parts = urlsplit(target)
        if method == "GET":
            [reference] = parse_qs(parts.query)["reference"]
            self.met["lookup"] += 1
            return 200, self._payments.get(reference, {"status": "unknown"})
        worker = int(headers.get("x-worker", 0))
        if parts.path == "/invoices":
            self.strike("at the invoice", sent["payment"], worker)
            known = self._invoices.get(headers["idempotency-key"])
            if known is None:
                known = self._invoices[headers["idempotency-key"]] = f"i-{uuid.uuid4().hex[:8]}"
                self.invoices[sent["payment"]] += 1
            return 200, {"id": known}
        return await self._pay(sent["order"], sent["reference"], worker)

    async def _pay(self, order: str, reference: str, worker: int) -> tuple[int, Any] | None:
        mood = (
            self._next.popleft()
            if self._next
            else self._random.choices([*self._moods], [*self._moods.values()])[0]
        )
        self.met[mood] += 1
        if mood == "failed before":
            return 503, {}
        self.strike("before the charge", order, worker)
        if mood == "dropped":
            return None
        if mood == "refused":
            self.refusals.add(order)
            self._payments[reference] = {"status": "refused"}
            return 402, self._payments[reference]
        if mood == "charged late":
            self._payments[reference] = {"status": "pending"}
            await asyncio.sleep(self._late)
        self.charges[order] += 1
        paid = self._payments[reference] = {"status": "paid", "id": f"p-{uuid.uuid4().hex[:8]}"}
        self.strike("after the charge", order, worker)
        if mood == "late":
            await asyncio.sleep(self._late)
        if mood == "lost":
            return None
        return (500, {}) if mood == "failed after" else (200, paid)
