"""From the name of a store to one that runs, or to the reason why it does not."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module

from dupeproof.cli.output import without_secrets
from dupeproof.errors import ConfigError
from dupeproof_lab.bench.affinity import place
from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.model import Store, Unavailable

_SITES: dict[Store, str] = {
    "memory": "embedded.MemorySite",
    "sqlite": "embedded.SQLiteSite",
    "redis": "redis.RedisSite",
    "postgres": "postgres.PostgresSite",
}


@contextmanager
def started(store: Store, given: str | None, cores: set[int]) -> Iterator[Environment]:
    """A environment on these cores; `Unavailable` when it cannot be had."""
    with ExitStack() as stack:
        try:
            environment = stack.enter_context(_kind(store)(*([] if given is None else [given])))
            place(environment.pids, cores)
            environment.size()  # it answers
        except (ConfigError, Unavailable):
            raise
        except Exception as exc:
            raise Unavailable(f"{type(exc).__name__}: {without_secrets(str(exc)).splitlines()[0]}") from exc
        yield environment


def _kind(store: Store) -> Callable[..., Environment]:
    module, _, name = _SITES[store].partition(".")
    try:
        kind: Callable[..., Environment] = getattr(
            import_module(f"dupeproof_lab.bench.environments.{module}"), name
        )
    except ModuleNotFoundError as exc:
        raise Unavailable(f'{exc.name} is not installed; run: pip install "dupeproof[{store}]"') from exc
    return kind
