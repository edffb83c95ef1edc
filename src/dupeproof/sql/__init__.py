"""The caller's own connection, whatever its kind, behind one small interface: execute, inside its transaction."""

from dupeproof.sql._async.joining import join_async
from dupeproof.sql._async.protocols import AsyncJoined
from dupeproof.sql._sync.joining import join
from dupeproof.sql._sync.protocols import Joined
from dupeproof.sql.faults import Translated

__all__ = ["AsyncJoined", "Joined", "Translated", "join", "join_async"]
