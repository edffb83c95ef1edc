"""Templates for keys, "{tenant}:{order.id}", filled so that different values never give the same text."""

from string import Formatter
from typing import NamedTuple

from dupeproof.errors import ConfigError


class Template(NamedTuple):
    """Fixed texts and fields by turns: one text more than fields."""

    texts: tuple[str, ...]
    fields: tuple[str, ...]
    special: frozenset[str]
    escapes: dict[int, str]

    def fill(self, values: list[str]) -> str:
        """The texts with the values between them.

        `{a}:{b}` is the classic trap: ("x:y", "z") and ("x", "y:z") would meet. So with several fields, each value has
        the characters of the fixed texts percent-encoded, and `%` itself. Then the first raw character of a fixed
        text ends a value, and reading back from the left is never in doubt. A single field needs none of this.
        """
        parts = [self.texts[0]]
        for value, text in zip(values, self.texts[1:], strict=True):
            # Most values have nothing to escape, and looking is cheaper than translating.
            parts.append(value if self.special.isdisjoint(value) else value.translate(self.escapes))
            parts.append(text)
        return "".join(parts)


def parse_template(template: str) -> Template:
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(f"key= {template!r} is not a template: {error}; write '{{{{' for a brace") from None
    texts, fields = [""], []
    for text, field, form, conversion in pieces:
        texts[-1] += text
        if field is None:
            continue
        if not field or form or conversion:
            raise ConfigError(f"key= {template!r}: write plain names in the braces, e.g. '{{order_id}}'")
        fields.append(field)
        texts.append("")
    if not fields:
        raise ConfigError(
            f"key= {template!r} names no argument, so all calls would be duplicates of one another"
        )
    if len(fields) == 1:
        return Template(tuple(texts), tuple(fields), frozenset(), {})
    if not all(texts[1:-1]):
        raise ConfigError(f"key= {template!r}: put a character between the fields, e.g. '{{a}}:{{b}}'")
    if any("%" in text for text in texts):
        raise ConfigError(f"key= {template!r}: '%' escapes values in a template; use another character")
    special = frozenset("%".join(texts))
    escapes = {
        ord(character): "".join(f"%{byte:02X}" for byte in character.encode()) for character in special
    }
    return Template(tuple(texts), tuple(fields), special, escapes)
