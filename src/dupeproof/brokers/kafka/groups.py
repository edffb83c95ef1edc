"""How the members of a consumer group share partitions: what of that may stand in `config=`, and what follows from it. Pure.

Classic groups know two protocols. With an eager assignor (range, roundrobin) every rebalance takes all partitions away
and gives all anew; with the cooperative one, only those that move. The newer protocol (`group.protocol=consumer`) lets
the broker assign, and moves single partitions too.
"""

from typing import Any

from dupeproof.brokers.kafka.driver import Config
from dupeproof.errors import ConfigError

PROTOCOL, STRATEGY = "group.protocol", "partition.assignment.strategy"
_COOPERATIVE = "cooperative-sticky"
_EAGER = ("range", "roundrobin")
_CLASSIC_ONLY = (STRATEGY, "session.timeout.ms", "heartbeat.interval.ms", "group.protocol.type")


def sharing(config: Config) -> tuple[dict[str, Any], bool]:
    """Our own settings beside those of the user, and whether rebalances are eager."""
    protocol = str(config.get(PROTOCOL, "classic")).lower()
    if protocol == "consumer":
        return _assigned_by_broker(config), False
    if protocol != "classic":
        raise ConfigError(f"{PROTOCOL} is 'classic' or 'consumer', not {protocol!r:.40}")
    if STRATEGY not in config:
        return {STRATEGY: _COOPERATIVE}, False
    names = [name.strip() for name in str(config[STRATEGY]).split(",")]
    if unknown := [name for name in names if name not in (_COOPERATIVE, *_EAGER)]:
        known = ", ".join((_COOPERATIVE, *_EAGER))
        raise ConfigError(
            f"{STRATEGY} has {unknown[0]!r:.40}, which librdkafka does not know; it has {known}"
        )
    if _COOPERATIVE in names and names != [_COOPERATIVE]:
        raise ConfigError(
            f"{STRATEGY} mixes {_COOPERATIVE} with {' and '.join(n for n in names if n != _COOPERATIVE)}; a member "
            "gives up either all partitions at a rebalance or only those that move, so name one kind"
        )
    return {}, _COOPERATIVE not in names


def _assigned_by_broker(config: Config) -> dict[str, Any]:
    if refused := [name for name in _CLASSIC_ONLY if name in config]:
        raise ConfigError(
            f"with {PROTOCOL}=consumer the broker decides {' and '.join(refused)}; leave that out of config="
        )
    return {}
