"""The body of a request while it is looked at: in memory, and on disk when it is large."""

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import IO

from dupeproof.http.problems import Code, Refused

CHUNK = 64 * 1024
IN_MEMORY = 1024 * 1024


class Body:
    """Filled chunk by chunk, then read as often as needed. Refuses to become larger than its limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._file: IO[bytes] = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by close
        self.size = 0

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        check_size(self.size, self._limit)
        self._file.write(chunk)

    def check_whole(self, announced: int | None) -> None:
        if announced is not None and self.size < announced:
            raise Refused(Code.BODY_MALFORMED)

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            yield chunk

    def then_rewound(self) -> Iterator[bytes]:
        """Its chunks, and then it is at its beginning again, for someone who has it as a file."""
        yield from self
        self._file.seek(0)

    def rewound(self) -> IO[bytes]:
        """As a file, from its beginning."""
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        self._file.close()


def check_size(size: int, limit: int) -> None:
    if size > limit:
        raise Refused(Code.BODY_TOO_LARGE)


def announced_size(content_length: str | None, limit: int) -> int | None:
    """What Content-Length says, before anything is read; None when it says nothing."""
    if not content_length:
        return None
    if not (content_length.isascii() and content_length.isdigit()):
        raise Refused(Code.BODY_MALFORMED)
    significant = content_length.lstrip("0")[:20]  # of what has more digits there is too much anyway
    size = int(significant or "0")
    check_size(size, limit)
    return size
