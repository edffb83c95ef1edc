"""What every kind of worker process runs: a guard that was opened and used before the processes were made.

`application` for WSGI servers, `celery` for Celery. Every run of a key is a line in the ledger.
"""

import os
from pathlib import Path
from urllib.parse import parse_qs

from dupeproof import Once

once = Once(
    os.environ["STORE_URL"], on_busy="wait", wait="30s", lease="60s", namespace=os.environ["NAMESPACE"]
)
once.run("before", int)


def note(key: str) -> str:
    with Path(os.environ["LEDGER"]).open("ab", buffering=0) as ledger:
        ledger.write(f"{key}\n".encode())
    return key


def application(environ, start_response):
    [key] = parse_qs(environ["QUERY_STRING"])["key"]
    assert once.run(key, note, key) == key
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]


if broker := os.environ.get("BROKER_URL"):
    import celery as distribution

    celery = distribution.Celery("prefork", broker=broker)
    celery.conf.worker_prefetch_multiplier = 1

    @celery.task
    def work(key: str) -> None:
        assert once.run(key, note, key) == key
