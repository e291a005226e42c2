"""List the words of the tool and hold the catalogues against them.

A message is the literal English text in ``tr("…")`` of the package and the templates, and the text of the tables whose
rows are looked up when they are shown (the codes of findings; data files whose texts are for people). A call of
``tr`` with anything else than a literal is a fault unless its place is on the list of tables. Of ``trn("one", "many")``
the second text is the message; the first must have no other fields.

``python tools/messages.py --check`` fails where a catalogue lacks a message, keeps one that is no longer used, or has
other named fields than the English text. ``--missing LANG`` prints what is missing as JSON, to be filled in and given
back with ``--merge LANG FILE``; ``--prune LANG`` drops what is no longer used.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import string
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from changegen import i18n  # noqa: E402

LOCALE = ROOT / "changegen" / "data" / "locale"
LANGUAGES = tuple(lang for lang in i18n.LANGUAGES if lang != "en")
TABLES = frozenset({"title", "meaning", "remedy", "why"})
"""Fields of table rows that are looked up when they are shown: of the codes and of data/driver-rollback.json."""
_TEXT = r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')"""
_TEMPLATE = re.compile(rf"\btr\(\s*{_TEXT}")
_TEMPLATE_COUNT = re.compile(rf"\btrn\(\s*{_TEXT}\s*,\s*{_TEXT}")
_ANY_TEMPLATE = re.compile(r"\btrn?\(")


class NotLiteralError(ValueError):
    """``tr`` is called with something that no catalogue can hold."""


def _dicts(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """Return the values of the module's own tables (name -> values of a dict display)."""
    found: dict[str, list[ast.expr]] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(target, ast.Name) and isinstance(value, ast.Dict):
            found[target.id] = value.values
    return found


def _literals(node: ast.expr, tables: dict[str, list[ast.expr]]) -> list[str] | None:
    """Return the texts that an argument can be: literals, a choice or a table of them, rows of the data tables.

    None for anything else: no catalogue could hold it.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.Attribute) and node.attr in TABLES:
        return []
    parts: list[ast.expr] | None = None
    if isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        parts = tables.get(node.value.id)
    if parts is None:
        return None
    made: list[str] = []
    for part in parts:
        texts = _literals(part, tables)
        if texts is None:
            return None
        made += texts
    return made


def in_source(path: Path) -> tuple[set[str], list[int]]:
    """Return the messages of one module and the lines where ``tr`` gets no literal."""
    found: set[str] = set()
    other: list[int] = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tables = _dicts(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "trn":
            one, many = (_literals(argument, tables) or [""] for argument in node.args[:2])
            if not one[0] or not many[0] or not fields(one[0]) <= fields(many[0]):
                other.append(node.lineno)
            found.update(many)
        if name not in {"tr", "_tr"}:
            continue
        texts = _literals(node.args[0], tables)
        if texts is None:
            other.append(node.lineno)
        else:
            found.update(texts)
    return found, other


def in_template(path: Path) -> set[str]:
    """Return the messages of one template.

    Raises:
        NotLiteralError: It calls ``tr`` with something that is no literal.
    """
    text = path.read_text(encoding="utf-8")
    found = [_unquoted(a, b) for a, b in _TEMPLATE.findall(text)]
    for one_a, one_b, many_a, many_b in _TEMPLATE_COUNT.findall(text):
        one, many = _unquoted(one_a, one_b), _unquoted(many_a, many_b)
        if not fields(one) <= fields(many):
            raise NotLiteralError(
                f"{path}: trn() with fields in the first text that the second lacks: {one!r}"
            )
        found.append(many)
    if len(found) != len(_ANY_TEMPLATE.findall(text)):
        raise NotLiteralError(f"{path}: tr() with something that is no literal")
    return set(found)


def _unquoted(double: str, single: str) -> str:
    """Return the text of a quoted literal, of which one of the two is empty."""
    text: str = ast.literal_eval(f'"{double}"' if double else f"'{single}'")
    return text


def in_tables() -> set[str]:
    """Return the messages of data tables."""
    from changegen.assess.codes import CODES

    found: set[str] = set()
    for code in CODES.values():
        found.update(text for text in (code.title, code.meaning, code.remedy) if text)
    rules = json.loads((ROOT / "changegen" / "data" / "driver-rollback.json").read_text(encoding="utf-8"))
    found.update(rule["why"] for rule in rules)
    return found


def messages() -> dict[str, str]:
    """Return every message with the first place that it is used in.

    Raises:
        NotLiteralError: A module calls ``tr`` with something that is no literal.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    for path in sorted((ROOT / "changegen").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        texts, other = in_source(path)
        wrong += [f"{name}:{line}" for line in other]
        for text in texts:
            found.setdefault(text, name)
    for path in sorted((ROOT / "templates").rglob("*")):
        if path.is_file() and path.suffix in {".j2", ".yaml"}:
            for text in in_template(path):
                found.setdefault(text, path.relative_to(ROOT).as_posix())
    for text in in_tables():
        found.setdefault(text, "data")
    if wrong:
        raise NotLiteralError(f"tr() with something that is no literal: {', '.join(wrong)}")
    return found


def fields(text: str) -> set[str]:
    """Return the named fields of a message."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def read(lang: str) -> dict[str, str]:
    """Return the catalogue of a language as it is on disk."""
    path = LOCALE / f"{lang}.json"
    loaded: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return loaded


def write(lang: str, catalogue: dict[str, str]) -> None:
    """Write a catalogue, sorted."""
    LOCALE.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(sorted(catalogue.items())), ensure_ascii=False, indent=1)
    (LOCALE / f"{lang}.json").write_text(text + "\n", encoding="utf-8")


def code_of(text: str) -> list[str]:
    """Return what stands in backticks: commands and names, the same in every language."""
    return sorted(re.findall(r"`([^`]+)`", text))


def faults(lang: str) -> list[str]:
    """Return what is wrong with a catalogue, one line each."""
    known, catalogue = messages(), read(lang)
    made = [f"missing: {text!r} ({where})" for text, where in sorted(known.items()) if text not in catalogue]
    made += [f"no longer used: {text!r}" for text in sorted(catalogue) if text not in known]
    for text, other in sorted(catalogue.items()):
        if text not in known:
            continue
        if not other.strip():
            made.append(f"empty: {text!r}")
        if fields(text) != fields(other):
            made.append(f"other fields: {text!r}: {sorted(fields(text) ^ fields(other))}")
        if code_of(text) != code_of(other):
            made.append(f"other code: {text!r}: {code_of(text)} and {code_of(other)}")
    return made


def main() -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--missing", metavar="LANG", choices=LANGUAGES)
    what.add_argument("--prune", metavar="LANG", choices=LANGUAGES)
    what.add_argument("--merge", nargs=2, metavar=("LANG", "FILE"))
    options = parser.parse_args()
    if options.missing:
        known, catalogue = messages(), read(options.missing)
        lacking = {text: "" for text in sorted(known, key=lambda t: (known[t], t)) if text not in catalogue}
        print(json.dumps(lacking, ensure_ascii=False, indent=1))
        return 0
    if options.prune:
        known, catalogue = messages(), read(options.prune)
        write(options.prune, {text: other for text, other in catalogue.items() if text in known})
        return 0
    if options.merge:
        lang, file = options.merge
        filled = json.loads(Path(file).read_text(encoding="utf-8"))
        write(lang, {**read(lang), **{text: other for text, other in filled.items() if other}})
        return 0
    wrong = [f"{lang}: {line}" for lang in LANGUAGES for line in faults(lang)]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
