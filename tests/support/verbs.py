"""Random sequences of store verbs, and answers in a form in which two stores can be compared."""

import time

from hypothesis import strategies as st
from msgspec import structs

from dupeproof.core.outcomes import Busy
from dupeproof.core.records import NEVER, ClaimRequest, Fail, Finish, Mark, Release, Renew, Terms

SHORT, LONG = 1, 3_600_000
PAUSE = 0.004
"""After anything that lasts a millisecond: by any clock it is over, and nothing is ever at the edge."""
LETTERS = "ab"

key = st.sampled_from("xxxy")
letter = st.sampled_from(LETTERS)
lasting = st.sampled_from([SHORT, LONG, LONG, LONG])
fingerprint = st.sampled_from([b"", b"", b"f" * 16, b"g" * 16])
claim = st.tuples(
    st.just("claim"), key, letter, lasting, lasting, st.booleans(), st.sampled_from([0, 0, 1, 2]), fingerprint
)
finish = st.tuples(st.just("finish"), key, letter, lasting, st.sampled_from([b"", b"1", b"\x00\xff" * 40]))
resolve = st.tuples(st.just("resolve"), key, letter, letter, lasting)
fail = st.tuples(st.just("fail"), key, letter, lasting, st.booleans())
release = st.tuples(st.just("release"), key, letter, lasting)
renew = st.tuples(st.just("renew"), key, letter, lasting, lasting)
mark = st.tuples(
    st.just("mark"), key, lasting, st.sampled_from(["", *LETTERS]), st.sampled_from([b"", b"{}"])
)
unmark = st.tuples(st.just("unmark"), key, st.sampled_from(["", *LETTERS]))
look = st.tuples(st.sampled_from(["get", "marks", "forget"]), key)
CHANGES = (claim, claim, claim, finish, resolve, fail, release, renew, mark, unmark, look)

# One call is a batch of one verb; most have one item, some several, on the same key too.
steps = st.lists(
    st.one_of(*(st.lists(change, min_size=1, max_size=3) if change in (claim, finish, mark) else st.lists(change, min_size=1, max_size=1) for change in CHANGES)),
    min_size=15,
    max_size=40,
)  # fmt: skip


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
    answers = getattr(store, "finish" if verb == "resolve" else verb)(items)
    if any(SHORT in each for each in batch):
        time.sleep(PAUSE)
    return [comparable(answer) for answer in answers]


def build(names, verb, key, *rest):
    key = names.key(key)
    match verb, rest:
        case "claim", (token, lease, window, hold, limit, fingerprint):
            terms = Terms("names", lease, window, hold, limit)
            return ClaimRequest(key, names.token(token), terms, fingerprint)
        case "finish", (token, window, result):
            return Finish(key, names.token(token), window, result, "json")
        case "resolve", (token, resolver, window):
            return Finish(
                key, names.token(token), window, b'"resolved"', "json", names.token(resolver.upper())
            )
        case "fail", (token, window, dead):
            return Fail(key, names.token(token), window, "ValueError", dead)
        case "release", (token, window):
            return Release(key, names.token(token), window)
        case "renew", (token, lease, window):
            return Renew(key, names.token(token), lease, window)
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
        # Whether a lease was long once does not matter when nobody runs any more.
        if record.state != "running":
            fields.pop("lease_until")
        return (fields, record.situation(now))
    if hasattr(answer, "meta"):
        return ("mark", answer.meta)
    return answer
