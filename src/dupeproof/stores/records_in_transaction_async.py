"""Records of finished work, read and written in the caller's own transaction."""

from dupeproof.core.records import ClaimRequest
from dupeproof.sql import AsyncCallerConnection
from dupeproof.stores import record_statements
from dupeproof.stores.record_statements import WrittenRecord, check_dialect


async def read(adapted: AsyncCallerConnection, key: bytes) -> WrittenRecord | None:
    check_dialect(adapted.dialect)
    values = record_statements.key_values(adapted.dialect, key)
    for state, token, fingerprint, result, codec in await adapted.execute(
        record_statements.READ[adapted.dialect], values
    ):
        return WrittenRecord(
            state, bytes.fromhex(token), bytes.fromhex(fingerprint), bytes.fromhex(result), codec
        )
    return None


async def finish(
    adapted: AsyncCallerConnection, request: ClaimRequest, attempt: int, result: bytes, codec: str
) -> bool:
    """Write the result; it counts when the transaction commits. False when the key is no longer theirs."""
    values = record_statements.done_values(adapted.dialect, request, attempt, result, codec)
    return await adapted.count(record_statements.WRITE[adapted.dialect], values) == 1
