"""The arguments of a call by their names, and its key, taken from them by name, path, template or function.

Templates such as "{tenant}:{order.id}" are filled so that different values never give the same text.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from string import Formatter
from typing import Any, NamedTuple

from dupeproof.errors import ConfigError, KeyInvalid, KeyMissing
from dupeproof.keys.canonical import canonical
from dupeproof.keys.names import check_key, is_uuid
from dupeproof.keys.paths import ABSENT, Pattern, follow, parse_path
from dupeproof.keys.scalars import EXACT, quote

Bind = Callable[[tuple[Any, ...], Mapping[str, Any]], dict[str, Any]]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


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


KeySpec = str | Sequence[str] | Callable[..., object]
KeyOf = Callable[[tuple[Any, ...], Mapping[str, Any]], str]

_Text = tuple[str, bool]


def compile_key(fn: Callable[..., object], spec: KeySpec, *, prefix: str = "") -> KeyOf:
    """A function from (args, kwargs) to the key of that call of `fn`, behind the prefix.

    What is wrong with `spec` shows now, not then.

        "order_id"                         that argument
        "order.id"                         a path into it: attributes, mapping items, list indexes
        ["tenant", "order.id"]             several, as a JSON array
        "{tenant}:{order.id}"              a template
        lambda order, **_: order.id        a function given the same arguments

    str, int and UUID stand for themselves, so 5 and "5" are one key. Other values (bool, date, Enum, dataclass…) are
    written in canonical form behind an `@`, and text that starts with `@` gets a second one, so they never meet. A
    float is refused: 0.1 + 0.2 is not 0.3, and a retry that computes it anew would miss. None, empty text and a path
    that leads nowhere are KeyMissing. Different values never give the same key, whatever characters are in them.
    """
    if callable(spec):
        return _from_function(spec, prefix)
    given: object = spec
    if not isinstance(given, str | list | tuple) or not given:
        raise ConfigError(
            f"key= must be a name, a list of names, a template or a function, got {given!r:.80}"
        )
    if not isinstance(spec, str):
        return _from_many(fn, spec, lambda parts: prefix + _array(parts))
    if "{" not in spec and "}" not in spec:
        return _from_one(fn, spec, prefix, "")
    template = parse_template(spec)
    if len(template.fields) == 1:
        before, after = template.texts
        return _from_one(fn, template.fields[0], prefix + before, after)
    return _from_many(
        fn, template.fields, lambda parts: prefix + template.fill([_marked(*part) for part in parts])
    )


def _from_one(fn: Callable[..., object], path: str, before: str, after: str) -> KeyOf:
    signature = signature_of(fn)
    name, steps, label = _look_up(fn, signature, path)
    pick = picker(signature, name)

    def key(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        value = pick(args, kwargs)
        if steps:
            value = follow(value, steps)
        kind = type(value)
        # The two commonest kinds first; text that starts with white space or an `@` needs a second look.
        if kind is int and -EXACT <= value <= EXACT:
            text = int.__repr__(value)
        elif kind is str and value > "A" and value.isascii():
            text = value
        else:
            text = _marked(*_text(value, label))
        return check_key(f"{before}{text}{after}")

    return key


def _from_many(fn: Callable[..., object], paths: Sequence[str], join: Callable[[list[_Text]], str]) -> KeyOf:
    signature = signature_of(fn)
    bind = binder(signature)
    sources = [_look_up(fn, signature, path) for path in paths]

    def key(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        bound = bind(args, kwargs)
        return check_key(join([_text(follow(bound[name], steps), label) for name, steps, label in sources]))

    return key


def _array(parts: list[_Text]) -> str:
    return f"[{','.join([quote(text) if plain else text for text, plain in parts])}]"


def _from_function(spec: Callable[..., object], prefix: str) -> KeyOf:
    if inspect.iscoroutinefunction(spec):
        raise ConfigError(
            f"key= {name_of(spec)} is an async function; a key must follow from the arguments at once"
        )

    def key(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        text = _marked(*_text(spec(*args, **kwargs), "what key= returned"))
        return check_key(prefix + text)

    return key


def _look_up(fn: Callable[..., object], signature: inspect.Signature, path: str) -> tuple[str, Pattern, str]:
    """The parameter a path starts from, the steps from there, and what errors call the path."""
    name, *steps = parse_path(path, what="key=")
    if name not in signature.parameters:
        kinds = {parameter.kind: parameter.name for parameter in signature.parameters.values()}
        rest = kinds.get(inspect.Parameter.VAR_KEYWORD)
        hint = "" if rest is None else f"; for a value in **{rest} write '{rest}.{name}'"
        have = ", ".join(signature.parameters) or "none"
        raise ConfigError(
            f"key= names {name!r}, which {name_of(fn)} does not take; its parameters are: {have}{hint}"
        )
    return name, tuple(steps), f"{'path' if steps else 'argument'} {path!r}"


def _text(value: object, label: str) -> _Text:
    """The text of a value, and whether the text stands for itself or is a canonical form."""
    kind = type(value)
    if kind is str or (isinstance(value, str) and not isinstance(value, Enum)):
        text = str.__str__(value)
        if not text or text.isspace():
            raise KeyMissing(f"the key's {label} is empty; pass the id of the operation")
        return text, True
    if kind is int or is_uuid(value) or (isinstance(value, int) and not isinstance(value, bool | Enum)):
        return check_key(value), True
    if value is None or value is ABSENT:
        found = "None" if value is None else "missing"
        raise KeyMissing(f"the key's {label} is {found}; pass the id of the operation")
    if isinstance(value, float):
        raise KeyInvalid(
            f"the key's {label} is a float, which seldom comes out equal twice; use int, str or Decimal"
        )
    return canonical(value, name=f"the key's {label}").decode(), False


def _marked(text: str, plain: bool) -> str:
    """Text and canonical forms side by side: a form starts with one `@`, text that starts so gets another."""
    return f"@{text}" if plain == text.startswith("@") else text


# Binding, as the function itself would, without paying for it on every call


def signature_of(fn: Callable[..., object]) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        raise ConfigError(
            f"the parameters of {name_of(fn)} cannot be read; wrap it in a function of your own"
        ) from None


def name_of(fn: Callable[..., object]) -> str:
    return getattr(fn, "__qualname__", type(fn).__qualname__)


def bound_arguments(fn: Callable[..., object]) -> Bind:
    """A function from (args, kwargs) to all arguments by name, with defaults, less a leading `self` or `cls`.

    `*args` comes back as a tuple and `**kwargs` as a dict under their own names. A call that the function would refuse
    raises the TypeError that the function would raise.
    """
    bind = binder(signature_of(fn))
    first = next(iter(signature_of(fn).parameters), None)
    if first not in ("self", "cls"):
        return bind

    def bind_method(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = bind(args, kwargs)
        del bound[first]
        return bound

    return bind_method


def binder(signature: inspect.Signature) -> Bind:
    """As `Signature.bind` with defaults applied, which takes microseconds; here only for what is out of the ordinary."""
    parameters = signature.parameters.values()

    def bind_slowly(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    if any(parameter.kind in _VARIABLE for parameter in parameters):
        return bind_slowly
    names = tuple(parameter.name for parameter in parameters if parameter.kind in _POSITIONAL)
    by_keyword = frozenset(parameter.name for parameter in parameters if parameter.kind in _BY_KEYWORD)
    defaults = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    }
    most, total = len(names), len(signature.parameters)

    def bind(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        given = len(args)
        if given > most:
            return bind_slowly(args, kwargs)  # raises
        bound = dict(zip(names, args, strict=False))
        if kwargs:
            bound.update(kwargs)
            # A name given twice, or one that is not a keyword: let Signature.bind say so.
            if len(bound) != given + len(kwargs) or not by_keyword.issuperset(kwargs):
                return bind_slowly(args, kwargs)
        if len(bound) != total:
            bound = defaults | bound
            if len(bound) != total:
                return bind_slowly(args, kwargs)  # raises
        return bound

    return bind


def plain_names(fn: Callable[..., object]) -> tuple[str, ...] | None:
    """The parameters of a function that takes each by position or name, and is no method; None for any other."""
    parameters = signature_of(fn).parameters
    plain = all(
        parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for parameter in parameters.values()
    )
    names = tuple(parameters)
    return names if plain and names and names[0] not in ("self", "cls") and "".join(names).isascii() else None


def picker(signature: inspect.Signature, name: str) -> Callable[[tuple[Any, ...], Mapping[str, Any]], Any]:
    """A function from (args, kwargs) to one argument.

    As strict as `binder`, but of a purely positional call it only needs the number of arguments.
    """
    bind = binder(signature)

    def pick_slowly(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return bind(args, kwargs)[name]

    parameters = list(signature.parameters.values())
    if any(parameter.kind not in _POSITIONAL for parameter in parameters):
        return pick_slowly
    index = list(signature.parameters).index(name)
    default = signature.parameters[name].default
    least = sum(parameter.default is inspect.Parameter.empty for parameter in parameters)
    most = len(parameters)

    def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        given = len(args)
        if kwargs or given < least or given > most:
            return bind(args, kwargs)[name]
        return args[index] if index < given else default

    return pick
