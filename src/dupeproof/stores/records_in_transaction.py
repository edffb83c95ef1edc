# Written by tools/twins.py from src/dupeproof/stores/records_in_transaction_async.py; change that file instead.
"""Records of finished work, read and written in the caller's own transaction."""

from dupeproof.core.records import ClaimRequest
from dupeproof.sql import CallerConnection
from dupeproof.stores import record_statements
from dupeproof.stores.record_statements import WrittenRecord, check_dialect


def read(adapted: CallerConnection, key: bytes) -> WrittenRecord | None:
    check_dialect(adapted.dialect)
    values = record_statements.key_values(adapted.dialect, key)
    for state, token, fingerprint, result, codec in adapted.execute(
        record_statements.READ[adapted.dialect], values
    ):
        return WrittenRecord(
            state, bytes.fromhex(token), bytes.fromhex(fingerprint), bytes.fromhex(result), codec
        )
    return None


def finish(adapted: CallerConnection, request: ClaimRequest, attempt: int, result: bytes, codec: str) -> bool:
    """Write the result; it counts when the transaction commits. False when the key is no longer theirs."""
    values = record_statements.done_values(adapted.dialect, request, attempt, result, codec)
    return adapted.count(record_statements.WRITE[adapted.dialect], values) == 1
