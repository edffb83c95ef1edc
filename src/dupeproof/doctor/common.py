"""What is judged in the same way on every store. Pure."""

from collections.abc import Iterator

from dupeproof.core.durations import about
from dupeproof.core.plurals import counted
from dupeproof.doctor.findings import Finding, error, warning

SLOW_MILLISECONDS = 20.0
CLOCKS_APART_SECONDS = 1.0
PURGE_BEHIND_SECONDS = 3_600
BACKLOG_SECONDS = 60.0


def judge_latency(milliseconds: float) -> Iterator[Finding]:
    if milliseconds > SLOW_MILLISECONDS:
        yield warning(
            "slow",
            f"a round trip takes {milliseconds:.0f} ms (median of several)",
            "every guarded call makes two, and a lease is renewed by them",
            "bring client and server closer, or look at the server's load; use batches (fresh, run_many) where you can",
        )


def judge_clock(seconds_apart: float) -> Iterator[Finding]:
    if abs(seconds_apart) > CLOCKS_APART_SECONDS:
        yield warning(
            "clock",
            f"this machine's clock and the server's are {abs(seconds_apart):.1f} s apart",
            "leases and windows go by the server's clock, so nothing breaks; but times in logs will not agree, and "
            "one-time tokens expire by the clock of whoever redeems them",
            "run NTP or chrony on both",
        )


def judge_windows(windows: dict[str, int], redelivery: int | None) -> Iterator[Finding]:
    """Windows and the time for which a broker may deliver again, in milliseconds."""
    for name, window in windows.items():
        if redelivery is not None and window < redelivery:
            yield error(
                "window-too-short",
                f"the window of {name} is {about(window)}, and a message may come again for {about(redelivery)}",
                "a duplicate that comes after the window counts as new, and its effect happens twice",
                f"make the window at least {about(redelivery)}, or the broker's retention shorter",
            )


def judge_purge(expired: int, oldest_seconds: float | None) -> Iterator[Finding]:
    if oldest_seconds is not None and oldest_seconds > PURGE_BEHIND_SECONDS:
        yield warning(
            "purge-behind",
            f"{counted(expired, 'expired row waits', 'expired rows wait')} to be removed, "
            f"the oldest for {about(int(oldest_seconds * 1_000))}",
            "nothing is wrong with the answers, but tables and indexes grow without end",
            "run `dupeproof purge URL --every 15m`, or a Purger inside your service",
        )


def judge_outbox(backlog: int, oldest: float | None, dead: int) -> Iterator[Finding]:
    if oldest is not None and oldest > BACKLOG_SECONDS:
        yield warning(
            "outbox-backlog",
            f"{counted(backlog, 'message waits', 'messages wait')} in the outbox, "
            f"the oldest for {about(int(oldest * 1_000))}",
            "they are not lost, but nobody publishes them, or not fast enough",
            "start a relay (`dupeproof relay --source URL --to …`), or another one; `dupeproof outbox status URL` shows more",
        )
    if dead:
        yield warning(
            "outbox-dead",
            f"{counted(dead, 'message of the outbox is', 'messages of the outbox are')} dead, with all attempts used up",
            "they are not sent again by themselves, and the later ones of their keys may be waiting",
            "see why with `dupeproof outbox dead URL`, then `outbox retry` or `outbox drop` them",
        )
