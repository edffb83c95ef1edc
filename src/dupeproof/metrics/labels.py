"""Labels that stay few: whoever makes a namespace per customer must not fill the memory of the metrics server."""

OTHER = "other"
MOST = 200


class FewLabels:
    """The first so many names as they are, all later ones together."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[tuple[str, str], tuple[str, str]] = {}

    def __call__(self, namespace: str, name: str) -> tuple[str, str]:
        pair = namespace, name
        known = self._known.get(pair)
        if known is None:
            known = pair if len(self._known) < self._most else (OTHER, OTHER)
            if known is pair:
                self._known[pair] = pair
        return known
