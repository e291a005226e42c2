"""CEL selectors of DeviceClasses and requests: which devices they take, and which attributes they name.

The part of CEL that device selectors use is read here, with the functions that Kubernetes adds (`quantity`, `semver`,
`includes`, `cel.bind`). What is not known gives no answer (None), never a guess. A selector that asks for an attribute
which a device does not have is an error in the scheduler, and fails the scheduling of the Pod.
Source: k8s.io/dynamic-resource-allocation, cel/compile.go and structured/, of 0.37.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from changegen.model.snapshot import Attribute, Device, DeviceClass
from changegen.quantity import Quantity, QuantityError, parse_quantity

__all__ = [
    "Reference",
    "SelectorSyntaxError",
    "Verdict",
    "class_takes",
    "failure",
    "judge",
    "references",
    "takes",
]


class SelectorSyntaxError(ValueError):
    """The expression is no CEL, or uses a part of it that is not read here."""


class Reference(msgspec.Struct, frozen=True, order=True):
    """An attribute or capacity that an expression reads: `device.attributes["domain"].name`."""

    kind: str
    """`attributes` or `capacity`"""
    domain: str
    name: str
    guarded: bool = False
    """Its existence is asked for in the same expression (`has(…)`, `"name" in …`, `[?…]`)."""

    @property
    def qualified(self) -> str:
        """The name with its domain, as a snapshot keys it."""
        return f"{self.domain}/{self.name}"


class Verdict(msgspec.Struct, frozen=True):
    """What an expression says of one device."""

    takes: bool | None
    """None: it cannot be told."""
    error: str = ""
    """A CEL runtime error: the scheduler aborts the allocation where it meets this device."""


# ---------------------------------------------------------------------------------------------------------- reading

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<comment>//[^\n]*)
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?)
    | (?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
    | (?P<string>[rRbB]?(?:'''(?:.|\n)*?'''|\"\"\"(?:.|\n)*?\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<op>&&|\|\||==|!=|<=|>=|\[\?|\.\?|[-+*/%!<>?:.,()\[\]{}])
    )""",
    re.VERBOSE,
)
_END: Final = ("end", "")
_BINARY: Final = {
    "||": 2,
    "&&": 3,
    "==": 5,
    "!=": 5,
    "<": 5,
    "<=": 5,
    ">": 5,
    ">=": 5,
    "in": 5,
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "%": 7,
}
_MAX_DEPTH: Final = 60

Node = tuple[Any, ...]
"""("lit", v) · ("name", n) · ("get", node, name, optional) · ("index", node, node, optional) · ("call", target|None, name, args) ·
("list", nodes) · ("map", pairs) · ("op", op, a, b) · ("not", a) · ("neg", a) · ("if", c, a, b)"""


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    at = 0
    while at < len(text):
        if text[at:].isspace():
            break
        match = _TOKEN.match(text, at)
        if match is None:
            raise SelectorSyntaxError(f"no CEL at column {at + 1}")
        at = match.end()
        kind = match.lastgroup or ""
        if kind != "comment":
            found.append((kind, match[kind]))
    found.append(_END)
    return found


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?"}


def _string(token: str) -> str:
    raw = token[0] in "rR"
    body = token[1:] if token[0] in "rRbB" else token
    quote = 3 if body[:3] in ("'''", '"""') and len(body) >= 6 else 1
    body = body[quote:-quote]
    if raw:
        return body
    return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", lambda m: _escape(m[1]), body)


def _escape(text: str) -> str:
    if text[0] in "xu" and len(text) > 1:
        return chr(int(text[1:], 16))
    return _ESCAPES.get(text, text)


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at]

    def take(self) -> tuple[str, str]:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        kind, value = self.peek()
        if kind == "op" and value == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise SelectorSyntaxError(f"{text!r} expected, {self.peek()[1]!r} found")

    def whole(self) -> Node:
        node = self.expression()
        if self.peek() != _END:
            raise SelectorSyntaxError(f"{self.peek()[1]!r} not expected")
        return node

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise SelectorSyntaxError("nested too deeply")
        node = self.binary(0)
        if self.accept("?"):
            yes = self.expression()
            self.expect(":")
            node = ("if", node, yes, self.expression())
        self.depth -= 1
        return node

    def binary(self, level: int) -> Node:
        left = self.unary()
        while True:
            kind, value = self.peek()
            rank = _BINARY.get(value) if kind == "op" or (kind, value) == ("name", "in") else None
            if rank is None or rank <= level:
                return left
            self.take()
            left = ("op", value, left, self.binary(rank))

    def unary(self) -> Node:
        if self.accept("!"):
            return ("not", self.unary())
        if self.accept("-"):
            return ("neg", self.unary())
        return self.postfix(self.primary())

    def postfix(self, node: Node) -> Node:
        while True:
            if self.accept("."):
                node = self.member(node, optional=False)
            elif self.accept(".?"):
                node = self.member(node, optional=True)
            elif self.accept("[") or self.accept("[?"):
                optional = self.tokens[self.at - 1][1] == "[?"
                key = self.expression()
                self.expect("]")
                node = ("index", node, key, optional)
            else:
                return node

    def member(self, node: Node, *, optional: bool) -> Node:
        kind, name = self.take()
        if kind != "name":
            raise SelectorSyntaxError(f"a name expected, {name!r} found")
        if self.accept("("):
            return ("call", node, name, self.arguments(")"))
        return ("get", node, name, optional)

    def arguments(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        if self.accept(end):
            return ()
        while True:
            found.append(self.expression())
            if self.accept(end):
                return tuple(found)
            self.expect(",")
            if self.accept(end):
                return tuple(found)

    def primary(self) -> Node:
        kind, value = self.take()
        if kind == "int":
            digits = value.rstrip("uU")
            if len(digits) > 20:
                raise SelectorSyntaxError("a number out of range")
            return ("lit", int(digits, 16 if digits[:2] in {"0x", "0X"} else 10))
        if kind == "float":
            return ("lit", float(value))
        if kind == "string":
            return ("lit", _string(value))
        if kind == "name":
            if value in {"true", "false"}:
                return ("lit", value == "true")
            if value == "null":
                return ("lit", None)
            if self.accept("("):
                return ("call", None, value, self.arguments(")"))
            return ("name", value)
        if value == "(":
            node = self.expression()
            self.expect(")")
            return node
        if value == "[":
            return ("list", self.arguments("]"))
        if value == "{":
            pairs = []
            while not self.accept("}"):
                key = self.expression()
                self.expect(":")
                pairs.append((key, self.expression()))
                if not self.accept(","):
                    self.expect("}")
                    break
            return ("map", tuple(pairs))
        raise SelectorSyntaxError(f"{value or 'end'!r} not expected")


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> Node:
    try:
        return _Parser(expression).whole()
    except RecursionError:
        raise SelectorSyntaxError("nested too deeply") from None


# ------------------------------------------------------------------------------------------------------- references


def _constant(node: Node) -> str | None:
    return node[1] if node[0] == "lit" and isinstance(node[1], str) else None


def _domain(node: Node, bound: Mapping[str, Node]) -> tuple[str, str] | None:
    """(kind, domain) of `device.attributes["domain"]` or a name bound to it."""
    if node[0] == "name" and node[1] in bound:
        return _domain(bound[node[1]], {})
    base, key = None, None
    if node[0] == "index":
        base, key = node[1], _constant(node[2])
    elif node[0] == "get":
        base, key = node[1], node[2]
    if base is None or key is None:
        return None
    if base[0] == "get" and base[1] == ("name", "device") and base[2] in {"attributes", "capacity"}:
        return base[2], key
    return None


def references(expression: str) -> tuple[Reference, ...]:
    """Every attribute and capacity that an expression names by a constant; sorted. Raises `SelectorSyntaxError`."""
    found: dict[tuple[str, str, str], bool] = {}

    def note(kind: str, domain: str, name: str, guarded: bool) -> None:
        key = (kind, domain, name)
        found[key] = found.get(key, False) or guarded

    def walk(node: Any, bound: dict[str, Node], guarded: bool) -> None:
        if not isinstance(node, tuple) or not node:
            return
        tag = node[0]
        if tag == "call" and node[2] == "bind" and len(node[3]) == 3 and node[3][0][0] == "name":
            walk(node[3][1], bound, guarded)
            walk(node[3][2], {**bound, node[3][0][1]: node[3][1]}, guarded)
            return
        if tag == "call" and node[1] is None and node[2] == "has":
            for argument in node[3]:
                walk(argument, bound, True)
            return
        if tag == "op" and node[1] == "in":
            where = _domain(node[3], bound)
            name = _constant(node[2])
            if where is not None and name is not None:
                note(*where, name, True)
        if tag in {"get", "index"}:
            name = node[2] if tag == "get" else _constant(node[2])
            where = _domain(node[1], bound)
            if where is not None and isinstance(name, str):
                note(*where, name, guarded or bool(node[3]))
        for part in node[1:]:
            if isinstance(part, tuple):
                if part and isinstance(part[0], str):
                    walk(part, bound, guarded)
                else:
                    for item in part:
                        if isinstance(item, tuple) and item and isinstance(item[0], tuple):
                            for inner in item:
                                walk(inner, bound, guarded)
                        else:
                            walk(item, bound, guarded)

    try:
        walk(_parsed(expression), {}, False)
    except RecursionError:
        raise SelectorSyntaxError("nested too deeply") from None
    return tuple(sorted(Reference(k, d, n, g) for (k, d, n), g in found.items()))


# ------------------------------------------------------------------------------------------------------- evaluation


class _Unknown(Exception):  # noqa: N818 - a value that cannot be told
    pass


class _RuntimeError(Exception):
    pass


class _SemVer(msgspec.Struct, frozen=True):
    numbers: tuple[int, int, int]
    pre: tuple[tuple[int, int, str], ...]

    @property
    def key(self) -> tuple[Any, ...]:
        # A release is newer than its pre-releases.
        return (self.numbers, not self.pre, self.pre)


_SEMVER: Final = re.compile(r"^v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$")


def _semver(text: str, *, normalize: bool = False) -> _SemVer:
    if normalize:
        text = text.removeprefix("v")
        head, sep, tail = text.partition("-")
        parts = [p.lstrip("0") or "0" for p in head.split(".")]
        text = ".".join([*parts, "0", "0"][:3]) + sep + tail
    match = _SEMVER.match(text)
    if match is None or text.startswith("v"):
        raise _RuntimeError(f"{text!r} is no semantic version")
    pre = tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in (match[4] or "").split(".") if p)
    return _SemVer((int(match[1]), int(match[2]), int(match[3])), pre)


class _Optional(msgspec.Struct, frozen=True):
    value: Any = None
    there: bool = False


class _Map(dict[str, Any]):
    """A map that has every domain, as the scheduler's has: one that no attribute lies in is empty."""

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


def _value(attribute: Attribute) -> Any:
    if attribute.type == "version":
        return _semver(str(attribute.value))
    if attribute.type == "versions":
        return [_semver(str(item)) for item in attribute.values]
    if attribute.type in {"strings", "ints", "bools"}:
        return list(attribute.values)
    if attribute.type == "unknown":
        raise _Unknown
    return attribute.value


class _View:
    """A device as a selector sees it, taken apart only as far as the selector looks."""

    __slots__ = ("device", "driver")

    def __init__(self, driver: str, device: Device) -> None:
        self.driver = driver
        self.device = device

    def get(self, name: str) -> Any:
        if name == "driver":
            return self.driver
        if name == "allowMultipleAllocations":
            return self.device.allow_multiple_allocations
        if name not in {"attributes", "capacity"}:
            raise _RuntimeError(f"no such key: {name}")
        found: _Map = _Map()
        source: Mapping[str, Any] = self.device.attributes if name == "attributes" else self.device.capacity
        for key, value in source.items():
            domain, _, last = key.rpartition("/")
            if domain not in found:
                found[domain] = {}
            found[domain][last] = value
        return found


def _plain(value: Any) -> Any:
    return _value(value) if isinstance(value, Attribute) else value


def _lookup(base: Any, key: Any, capacity: bool) -> Any:
    if isinstance(base, _View):
        return base.get(key)
    if isinstance(base, _Map):
        return base[key]
    if isinstance(base, dict):
        if key not in base:
            raise _RuntimeError(f"no such key: {key}")
        value = base[key]
        if capacity and isinstance(value, str):
            try:
                return parse_quantity(value)
            except QuantityError as error:
                raise _Unknown from error
        return _plain(value)
    if isinstance(base, list) and isinstance(key, int):
        if not 0 <= key < len(base):
            raise _RuntimeError(f"index out of range: {key}")
        return base[key]
    raise _RuntimeError("no such key")


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) != isinstance(b, bool):
        raise _RuntimeError("no such overload: ==")
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    if not numbers and type(a) is not type(b) and a is not None and b is not None:
        raise _RuntimeError("no such overload: ==")
    return bool(a == b)


def _evaluate(node: Node, env: Mapping[str, Any]) -> Any:
    tag = node[0]
    if tag == "lit":
        return node[1]
    if tag == "name":
        if node[1] in env:
            return env[node[1]]
        raise _Unknown
    if tag in {"get", "index"}:
        base = _evaluate(node[1], env)
        key = node[2] if tag == "get" else _evaluate(node[2], env)
        if isinstance(base, _Optional):
            if not base.there:
                return base
            base = base.value
            optional = True
        else:
            optional = node[3]
        where = _domain(node[1], {}) or ("", "")
        if not optional:
            return _lookup(base, key, where[0] == "capacity")
        try:
            return _Optional(_lookup(base, key, where[0] == "capacity"), True)
        except _RuntimeError:
            return _Optional()
    if tag == "not":
        value = _evaluate(node[1], env)
        if not isinstance(value, bool):
            raise _RuntimeError("no such overload: !")
        return not value
    if tag == "neg":
        return -_evaluate(node[1], env)
    if tag == "if":
        return _evaluate(node[2] if _truth(_evaluate(node[1], env)) else node[3], env)
    if tag == "list":
        return [_evaluate(item, env) for item in node[1]]
    if tag == "map":
        return {_evaluate(key, env): _evaluate(value, env) for key, value in node[1]}
    if tag == "op":
        return _operator(node[1], node[2], node[3], env)
    return _call(node[1], node[2], node[3], env)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _RuntimeError("no boolean")
    return value


def _operator(op: str, left: Node, right: Node, env: Mapping[str, Any]) -> Any:
    if op in {"&&", "||"}:
        # CEL's logic is commutative: the deciding side hides an error or an unknown of the other.
        decides = op == "||"
        trouble: Exception | None = None
        for side in (left, right):
            try:
                if _truth(_evaluate(side, env)) is decides:
                    return decides
            except _Unknown as error:
                trouble = error
            except _RuntimeError as error:
                trouble = trouble or error
        if trouble is not None:
            raise trouble
        return not decides
    a, b = _evaluate(left, env), _evaluate(right, env)
    if op == "==":
        return _equal(a, b)
    if op == "!=":
        return not _equal(a, b)
    if op == "in":
        if isinstance(b, dict | list):
            return a in b
        raise _RuntimeError("no such overload: in")
    if op in _COMPARE:
        if isinstance(a, str) != isinstance(b, str) or not isinstance(a, str | int | float):
            raise _RuntimeError(f"no such overload: {op}")
        return _COMPARE[op](a, b)
    if op == "+" and type(a) is type(b) and isinstance(a, str | int | float | list):
        return a + b
    if isinstance(a, int) and isinstance(b, int):
        if op in {"/", "%"} and b == 0:
            raise _RuntimeError("division by zero")
        quotient = abs(a) // abs(b) if op in {"/", "%"} else 0
        signed = quotient if (a < 0) == (b < 0) else -quotient
        return {"-": a - b, "*": a * b, "/": signed, "%": a - b * signed}[op]
    raise _Unknown


def _call(target: Node | None, name: str, args: tuple[Node, ...], env: Mapping[str, Any]) -> Any:
    if target is None and name == "has" and len(args) == 1 and args[0][0] in {"get", "index"}:
        try:
            base = _evaluate(args[0][1], env)
        except _RuntimeError:
            return False
        key = args[0][2] if args[0][0] == "get" else _evaluate(args[0][2], env)
        return isinstance(base, dict) and key in base
    if target == ("name", "cel") and name == "bind" and len(args) == 3 and args[0][0] == "name":
        return _evaluate(args[2], {**env, args[0][1]: _evaluate(args[1], env)})
    if (
        target is not None
        and name in {"exists", "all", "exists_one"}
        and len(args) == 2
        and args[0][0] == "name"
    ):
        items = _evaluate(target, env)
        if not isinstance(items, list | dict):
            raise _RuntimeError(f"no such overload: {name}")
        answers = [_truth(_evaluate(args[1], {**env, args[0][1]: item})) for item in items]
        return {"exists": any(answers), "all": all(answers), "exists_one": answers.count(True) == 1}[name]
    values = [_evaluate(arg, env) for arg in args]
    if target is None:
        return _function(name, values)
    return _method(_evaluate(target, env), name, values)


def _function(name: str, values: list[Any]) -> Any:
    if name == "quantity" and len(values) == 1 and isinstance(values[0], str):
        try:
            return parse_quantity(values[0])
        except QuantityError as error:
            raise _RuntimeError(str(error)) from error
    if name == "isQuantity" and len(values) == 1 and isinstance(values[0], str):
        try:
            parse_quantity(values[0])
        except QuantityError:
            return False
        return True
    if name == "semver" and values and isinstance(values[0], str):
        return _semver(values[0], normalize=len(values) > 1 and values[1] is True)
    if name == "size" and len(values) == 1 and isinstance(values[0], str | list | dict):
        return len(values[0])
    if (
        name == "string"
        and len(values) == 1
        and isinstance(values[0], str | int)
        and not isinstance(values[0], bool)
    ):
        return str(values[0])
    if name == "int" and len(values) == 1 and isinstance(values[0], int | str):
        try:
            return int(values[0])
        except ValueError as error:
            raise _RuntimeError(str(error)) from error
    if name == "includes" and len(values) == 2:
        return _includes(values[0], values[1])
    raise _Unknown


def _includes(value: Any, wanted: Any) -> bool:
    return wanted in value if isinstance(value, list) else _equal(value, wanted)


def _method(target: Any, name: str, values: list[Any]) -> Any:
    if isinstance(target, _Optional):
        if name == "hasValue" and not values:
            return target.there
        if name == "orValue" and len(values) == 1:
            return target.value if target.there else values[0]
        if name == "value" and not values:
            if target.there:
                return target.value
            raise _RuntimeError("optional.none() dereference")
        raise _Unknown
    other: Any = values[0] if len(values) == 1 else None
    if isinstance(target, Quantity | _SemVer) and type(other) is type(target):
        a: Any = target.key
        b: Any = other.key
        answers: dict[str, Any] = {
            "compareTo": (a > b) - (a < b),
            "isGreaterThan": a > b,
            "isLessThan": a < b,
        }
        if name in answers:
            return answers[name]
    if isinstance(target, _SemVer) and not values and name in {"major", "minor", "patch"}:
        return target.numbers[("major", "minor", "patch").index(name)]
    if isinstance(target, str) and isinstance(other, str):
        if name == "startsWith":
            return target.startswith(other)
        if name == "endsWith":
            return target.endswith(other)
        if name == "contains":
            return other in target
        if name == "matches":
            return _matches(target, other)
    if isinstance(target, str) and not values and name == "lowerAscii":
        return target.lower()
    if isinstance(target, str | list | dict) and not values and name == "size":
        return len(target)
    if name == "includes" and len(values) == 1:
        return _includes(target, other)
    raise _Unknown


def _matches(text: str, pattern: str) -> bool:
    # RE2 and Python agree on the plain part of regular expressions; what could run for ever or differ is not tried.
    if len(pattern) > 200 or re.search(r"\\[^dwsDWSbB.\\/+*?()\[\]{}|^$-]|\(\?|[+*}][+*{]|\)[+*{]", pattern):
        raise _Unknown
    try:
        return re.search(pattern, text) is not None
    except re.error as error:
        raise _RuntimeError(str(error)) from error


def judge(expression: str, driver: str, device: Device) -> Verdict:
    """What one selector says of one device of a driver."""
    try:
        value = _evaluate(_parsed(expression), {"device": _View(driver, device)})
    except (SelectorSyntaxError, _Unknown, RecursionError):
        return Verdict(None)
    except _RuntimeError as error:
        return Verdict(False, str(error))
    return Verdict(value if isinstance(value, bool) else None)


def takes(expressions: Iterable[str], driver: str, device: Device) -> bool | None:
    """Whether all selectors take a device; None where one cannot be told and none refuses."""
    answer: bool | None = True
    for expression in expressions:
        verdict = judge(expression, driver, device)
        if verdict.takes is False:
            return False
        if verdict.takes is None:
            answer = None
    return answer


def failure(expressions: Iterable[str], driver: str, device: Device) -> str:
    """The error of the first selector that fails on a device, where those before it take the device; empty: none does."""
    for expression in expressions:
        verdict = judge(expression, driver, device)
        if not verdict.takes:
            return verdict.error
    return ""


def class_takes(device_class: DeviceClass, driver: str, device: Device) -> bool | None:
    """Whether a device is of a class."""
    return takes(device_class.selectors, driver, device)
