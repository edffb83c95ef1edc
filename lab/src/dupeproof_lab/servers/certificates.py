"""A certificate for a server that speaks TLS: files, which every server gets as copies that it may read."""

import os
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """Paths of PEM files. `keyfile` has a key in PKCS 8; `cafile` the authority, for clients."""

    certfile: Path
    keyfile: Path
    cafile: Path

    def copied(self, home: Path, user: int | None) -> "Certificate":
        """Into the folder of a server, and owned by whom it runs as."""
        copies = []
        for each, name in zip(self, ("server.pem", "server.key", "ca.pem"), strict=True):
            copy = home / name
            copy.write_bytes(each.read_bytes())
            copy.chmod(0o600)
            if user is not None:
                os.chown(copy, user, -1)
            copies.append(copy)
        return Certificate(*copies)
