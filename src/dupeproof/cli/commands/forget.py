"""`dupeproof forget`: make a key new again."""

from dupeproof import Once, defaults
from dupeproof.cli.output import NotFound, report
from dupeproof.cli.target import UNKNOWN, AsJson, KeyAfterUrl, Namespace, UrlOrKey, url_and_key


def forget(
    first: UrlOrKey = None,
    second: KeyAfterUrl = None,
    *,
    namespace: Namespace = defaults.NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Remove a key's record and mark: the next message or call with it runs. An owner still at work is refused later.

    Exit code 1 when nothing was known.
    """
    url, key = url_and_key(first, second)
    with Once(url, namespace=namespace) as once:
        if not once.forget(key):
            raise NotFound(UNKNOWN.format(namespace))
    report("forgotten", {"forgotten": True}, as_json=as_json)
