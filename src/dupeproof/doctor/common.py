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


def judge_waiting(held: int, oldest_held: float | None, dead: int) -> Iterator[Finding]:
    """Keys that wait for a person."""
    if held:
        since = "" if oldest_held is None else f", the oldest for {about(int(oldest_held * 1_000))}"
        yield warning(
            "held-keys",
            f"{counted(held, 'key is', 'keys are')} held{since}",
            "their effect may have happened, and their callers are refused until somebody says whether it did",
            "`dupeproof list URL --state held`; look whether it happened, then `dupeproof settle` or `dupeproof resolve`",
        )
    if dead:
        yield warning(
            "dead-keys",
            f"{counted(dead, 'key is', 'keys are')} dead, with all attempts used up",
            "their work was not done, and is not tried again by itself",
            "`dupeproof list URL --state dead`; mend the cause, then `dupeproof resolve --reopen`",
        )


def judge_outbox(
    backlog: int, oldest: float | None, dead: int, relay_seen: float | None
) -> Iterator[Finding]:
    """`relay_seen`: seconds since a relay had messages in its hands, None where none ever had."""
    if oldest is not None and oldest > BACKLOG_SECONDS:
        if relay_seen is None:
            relay, why = ", and no relay was ever here", "they are not lost, but no relay is running"
        elif relay_seen > BACKLOG_SECONDS:
            relay = f", and no relay has taken any for {about(int(relay_seen * 1_000))}"
            why = "they are not lost, but no relay is running, or all that is left waits for a retry or behind a dead message"
        else:
            relay, why = "", "they are not lost, but they are not published fast enough"
        yield warning(
            "outbox-backlog",
            f"{counted(backlog, 'message waits', 'messages wait')} in the outbox, "
            f"the oldest for {about(int(oldest * 1_000))}{relay}",
            why,
            "start a relay (`dupeproof relay --source URL --to …`), or another one; `dupeproof outbox status URL` shows more",
        )
    if dead:
        yield warning(
            "outbox-dead",
            f"{counted(dead, 'message of the outbox is', 'messages of the outbox are')} dead, with all attempts used up",
            "they are not sent again by themselves, and the later ones of their keys may be waiting",
            "see why with `dupeproof outbox dead URL`, then `outbox retry` or `outbox drop` them",
        )
