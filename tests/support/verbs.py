"""Random sequences of store verbs, and answers in a form in which two stores can be compared."""

import random
import time

from msgspec import structs

from dupeproof.core.outcomes import Busy
from dupeproof.core.records import NEVER, ClaimRequest, Fail, Finish, Mark, Release, Renew, Terms

SHORT, LONG = 1, 3_600_000
PAUSE = 0.004
"""After anything that lasts a millisecond: by any clock it is over, and nothing is ever at the edge."""
LETTERS = "ab"

WEIGHTS = {
    "claim": 9, "finish": 3, "resolve": 2, "fail": 4, "release": 2, "reopen": 1, "renew": 3, "take": 3, "mark": 3, "unmark": 2,
    "get": 2, "marks": 1, "forget": 1,
}  # fmt: skip
BATCHED = ("claim", "finish", "mark")


def step():
    """One batch of one verb. Few keys and tokens, so that most verbs meet a record they can do something to."""
    [verb] = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
    size = random.choice([1, 1, 1, 2, 3]) if verb in BATCHED else 1
    # In a batch nothing is over at once: what is first in it would be, by the time the second is looked at.
    durations = [LONG] if size > 1 else [SHORT, LONG, LONG, LONG]
    return [
        (verb, random.choice("xxxy"), *details(verb, lambda: random.choice(durations))) for _ in range(size)
    ]


def details(verb, lasting):
    token = random.choice(LETTERS)
    match verb:
        case "claim":
            fingerprint = random.choice([b"", b"", b"f" * 16, b"f" * 16, b"g" * 16])
            limit = random.choice([0, 0, 1, 2])
            labels = random.choice([("", ""), ("charge", ""), ("", "o-1"), ("charge", "ö-2")])
            return token, lasting(), lasting(), random.random() < 0.3, limit, fingerprint, *labels
        case "finish":
            return token, lasting(), random.choice([b"", b"1", b"\x00\xff" * 40])
        case "resolve":
            return token, random.choice(LETTERS), lasting()
        case "fail":
            return token, lasting(), random.choice(["failed", "failed", "dead", "held", "still held"])
        case "release" | "reopen":
            return token, lasting()
        case "renew":
            return token, lasting(), lasting(), random.choice([b"", b"{}", b'{"charge":1}' * 9])
        case "take":
            return token, random.choice(LETTERS), lasting(), lasting()
        case "mark":
            return lasting(), random.choice(["", *LETTERS]), random.choice([b"", b"{}"])
        case "unmark":
            return (random.choice(["", *LETTERS]),)
    return ()


class Names:
    """The keys and tokens of one sequence: new ones each time, the same on both stores."""

    def __init__(self, salt):
        self._salt = salt

    def key(self, name):
        return (self._salt + name.encode()).rjust(16, b"-")[-16:]

    def token(self, name):
        return name.encode() * 8


def apply(store, names, batch):
    """Carry out one batch of one verb on a store: its answers."""
    verb = batch[0][0]
    items = [build(names, *each) for each in batch]
    answers = getattr(store, {"resolve": "finish", "take": "renew", "reopen": "release"}.get(verb, verb))(
        items
    )
    if any(SHORT in each for each in batch):
        time.sleep(PAUSE)
    return [comparable(answer) for answer in answers]


def build(names, verb, key, *rest):
    key = names.key(key)
    match verb, rest:
        case "claim", (token, lease, window, hold, limit, fingerprint, name, kept_key):
            terms = Terms("names", lease, window, hold, limit, name)
            return ClaimRequest(key, names.token(token), terms, fingerprint, kept_key)
        case "finish", (token, window, result):
            return Finish(key, names.token(token), window, result, "json")
        case "resolve", (token, resolver, window):
            return Finish(
                key, names.token(token), window, b'"resolved"', "json", names.token(resolver.upper())
            )
        case "fail", (token, window, fate):
            return Fail(
                key,
                names.token(token),
                window,
                "ValueError",
                fate == "dead",
                fate in ("held", "still held"),
                1_000 * (fate == "still held"),
            )
        case "release" | "reopen", (token, window):
            return Release(key, names.token(token), window, verb == "reopen")
        case "renew", (token, lease, window, journal):
            return Renew(key, names.token(token), lease, window, b"", journal)
        case "take", (token, taker, lease, window):
            return Renew(key, names.token(token), lease, window, names.token(taker.upper()))
        case "mark", (window, token, meta):
            return Mark(key, window, names.token(token), meta)
        case "unmark", (token,):
            return Mark(key, LONG, names.token(token))
    return key


def comparable(answer):
    """Everything but the moments, which are compared by what they mean."""
    if isinstance(answer, Busy):
        return ("busy", answer.lease_left > LONG / 2)
    if hasattr(answer, "record"):
        record, now = answer.record, answer.now
        fields = structs.asdict(record)
        for name in ("created_at", "lease_until", "finished_at", "expires_at"):
            fields[name] = (fields[name] == NEVER, fields[name] > now + LONG / 2)
        # Redis does not read its clock for a claim that one command can decide.
        fields.pop("created_at")
        # Whether a lease was long once does not matter when nobody runs any more.
        if record.state != "running":
            fields.pop("lease_until")
        return (fields, record.situation(now))
    if hasattr(answer, "meta"):
        return ("mark", answer.meta)
    return answer
