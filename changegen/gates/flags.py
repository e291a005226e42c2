"""Flags of a command line, and texts, as Go's flag packages read them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["flag_values", "go_parse_bool", "go_quote", "trim"]


# What Go's unicode.IsSpace holds for white space; Python's str.strip also takes U+001C to U+001F.
_GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def flag_values(argv: Sequence[str], name: str, bare: Collection[str] = ()) -> tuple[str, ...]:
    """Every value that `--name` is given in the arguments of a program, in order.

    As spf13/pflag reads them: `--name=V`, `--name V`, `_` for `-` in names, nothing behind a lone `--`. A flag takes
    the next argument for its value unless it is in `bare` (flags that stand alone); with an empty `bare` a flag whose
    next argument begins with `-` is taken to stand alone, which is right for all sensible command lines.

    Args:
        argv: arguments of the component itself, without its name; unwrap shells and log runners before.
        name: with hyphens and without the leading ones.
        bare: names of the flags of this component that need no value, see `Flag.bare`.
    """
    values: list[str] = []
    index = 0
    while index < len(argv):
        argument = argv[index]
        index += 1
        if argument == "--":
            break
        if not argument.startswith("-") or argument == "-":
            continue
        if not argument.startswith("--"):
            continue
        flag, equals, value = argument[2:].partition("=")
        flag = flag.replace("_", "-")
        if not equals:
            if flag in bare:
                continue
            if index >= len(argv):
                break
            if flag != name and not bare and argv[index].startswith("-"):
                continue
            value = argv[index]
            index += 1
        if flag == name:
            values.append(value)
    return tuple(values)


def go_parse_bool(text: str) -> bool | None:
    """strconv.ParseBool: twelve spellings, None for any other."""
    return True if text in _TRUE else False if text in _FALSE else None


_GO_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def go_quote(text: str) -> str:
    """strconv.Quote, as `%q` and the errors of strconv print a string."""
    out: list[str] = []
    for char in text:
        code = ord(char)
        if char in _GO_ESCAPES:
            out.append(_GO_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif code < 0x80:
            out.append(f"\\x{code:02x}")
        elif code < 0x10000:
            out.append(f"\\u{code:04x}")
        else:
            out.append(f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def trim(text: str) -> str:
    """Return a text without the white space at its ends, as strings.TrimSpace does."""
    return text.strip(_GO_SPACE)
