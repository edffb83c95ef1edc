"""Start every server the tests know, one after the other, and stop it again: `make first-starts`.

Nothing is looked for or installed beforehand, as the tests do: on a machine without its package, a server's own start has
to bring it. `make fresh-quick` runs this where no package is.
"""

import time
from contextlib import ExitStack

from dupeproof_lab import servers
from dupeproof_lab.servers import PgBouncer, Postgres, Server, install


def kinds() -> dict[str, type[Server]]:
    """By name: what the harness offers."""
    found = (getattr(servers, name) for name in servers.__all__)
    classes = [each for each in found if isinstance(each, type) and issubclass(each, Server)]
    return {each.name: each for each in classes if hasattr(each, "name")}


def start(kind: type[Server], stack: ExitStack) -> Server:
    if kind is PgBouncer:
        return stack.enter_context(PgBouncer(stack.enter_context(Postgres()).url))
    return stack.enter_context(kind())


def main() -> None:
    known = kinds()
    for name in (*install.SERVERS, *(tool for tool in install.TOOLS if tool in known)):
        begin = time.monotonic()
        with ExitStack() as stack:
            server = start(known[name], stack)
            print(f"{name:<16}{server.version:<16}{time.monotonic() - begin:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
