"""A new request has a new key, as the document asks; schemathesis would use one for many."""

from uuid import uuid4

import schemathesis

from dupeproof.http.keys import parse_key
from dupeproof.http.problems import Refused


@schemathesis.hook
def before_call(context, case, kwargs):
    key = (case.headers or {}).get("Idempotency-Key")
    try:
        well_formed = isinstance(key, str) and parse_key([key]) is not None
    except Refused:
        return
    if well_formed:
        case.headers["Idempotency-Key"] = uuid4().hex
