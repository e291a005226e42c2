"""Make docs/templates.md: which values a template may use, with their types, from the schema of the ticket itself.

`python tools/make_template_docs.py` writes it; with `--check` it writes nothing and fails where the page is out of date.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
import typing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402

from changegen.model import ticket as model  # noqa: E402
from changegen.render import forms, jinja, view  # noqa: E402
from tools import pages  # noqa: E402

HEAD = """# Templates

<!-- Made by tools/make_template_docs.py from the schema of the ticket. Do not edit. -->

Every document of changegen is made from a template, and each can be replaced:

```
changegen ticket --template-init my-templates     # copies the shipped ones, to edit
rm my-templates/partials/plan.md.j2               # what you do not change is taken from the shipped ones
changegen ticket INPUT --profile NAME --template my-templates -o ticket.md
```

A file of the same name in your folder goes before the shipped one, part by part: `partials/rollback.md.j2` replaces the
rollback in Markdown and nothing else. `ticket.css`, `print.css` and `ticket.js` are replaced in the same way, and so are the
mappings of ticket systems, `forms/servicenow.yaml` and `forms/jira.yaml`.

Templates are Jinja. They run in an immutable sandbox, in a process of their own with a limit of {memory} MiB and {seconds} s: a
template can read the values below and change nothing. A value that does not exist is an error that names it. Every `{{{{ value }}}}`
is escaped for the place that it goes to, Markdown or HTML; names of a cluster are untrusted text and stay text. A PDF is made
from the HTML templates; nothing is fetched but `data:` URLs.

## Kinds of PDF

| `--pdf` | what it is |
|---|---|
| `ua` (default) | tagged for screen readers, PDF/UA-1; the checklist is a form, the ticket's JSON is attached |
| `archive` | PDF/A-3u for archives, with the same form, tags and attachment |
| `plain` | tagged, without a claim |

veraPDF 1.28.1 found the English and the Chinese ticket of the recorded upgrade compliant as `ua` and as `archive`, and its closing
report as `ua` (December 2026, WeasyPrint 70.0, DejaVu, Open Sans and Noto CJK fonts). That was done by hand and is not part of the
tests: with templates of your own, or other fonts, the kind is a claim until a validator confirms it. Keep headings in order (no
level left out), give each figure a text, each form field a title.

## Filters

| filter | what it does |
|---|---|
| `rich` | text with `code` in backticks: the code is set as code, the rest escaped |
| `code` | inline code |
| `block` | a block of code; `block("sh")` names the language |
| `value` | a check's value in words: yes, no, lists, maps |
| `names(n)` | a list of names; more than n (6) are counted |
| `cap(n)` | the first n rows |
| `dedupe` | without repetitions |
| `when` | a time for people |
| `utc` | a time for programs that want UTC: `2027-01-31 21:00:00` |

`tr("text {{field}}", field=value)` gives the tool's own words in the ticket's language; a text that is in no catalogue stays as it is.

## Functions

| function | what it gives |
|---|---|
"""
TICKET_NAMES = {
    "t": ("Ticket", "the ticket itself"),
    "banner": ("pair of str", "the decision's words, and the headline without them"),
    "facts": ("list of pairs of str", "first-page facts: label, text"),
    "versions": ("list of Versions", "current against target, grouped"),
    "set_gates": ("list of SetGate", "gates that somebody set, worst first"),
    "flips": ("list of Flip", "default changes; what touches this cluster first"),
    "stage_moves": ("list of StageMove", "gates that nobody set and whose stage or lock changes"),
    "other_forecast": ("list of ForecastRow", "flags, APIs and runtime configuration"),
    "outages": ("list of Outage", "capacity with one node out, nodes with equal numbers together"),
    "pools": ("list of Pools", "pools that hold the same together"),
    "phases": ("list of PhaseSteps", "steps by phase"),
    "layers": ("list of LayerChecks", "checks by layer; rows are pairs of Check and CheckResult or none"),
    "open_findings": ("list of Finding", "findings that are not accepted"),
    "accepted_findings": ("list of Finding", "findings that the profile accepts"),
    "open_fields": ("list of Field", "fields for people that are required and empty"),
    "minutes": ("int", "minutes of all steps"),
    "review": ("list of pairs", "what a reviewer ticks: text; true, false, or none where people judge"),
    "no_return": ("Step or none", "the step after whose start there is no simple way back"),
    "list_cap": ("int", "rows of one table"),
}
RESULT_NAMES = {
    "r": ("Results", "the closing report itself"),
    "layers": TICKET_NAMES["layers"],
    "open_findings": ("list of Finding", "findings on the cluster as it is now"),
    "accepted_findings": TICKET_NAMES["accepted_findings"],
    "list_cap": TICKET_NAMES["list_cap"],
}
ORDER = (
    model.Ticket,
    model.Results,
    model.Finding,
    model.Subject,
    model.Evidence,
    model.Acceptance,
    model.Step,
    model.Command,
    model.Check,
    model.CheckResult,
    model.Query,
    model.RollbackStep,
    model.ForecastRow,
    model.InstanceRow,
    model.DriverRow,
    model.ResourceRow,
    model.FeatureRow,
    model.PoolRow,
    model.TaintRow,
    model.BlastRow,
    model.CapacityRow,
    model.MonitorRow,
    model.Change,
    model.Deviation,
    model.NotComparable,
    model.Field,
    model.Hop,
    model.InputDigest,
    view.Versions,
    view.SetGate,
    view.Flip,
    view.StageMove,
    view.Outage,
    view.Pools,
    view.PhaseSteps,
    view.LayerChecks,
    view.CommandBlock,
    forms.Form,
    forms.FormField,
)


def cell(text: str) -> str:
    """Return text for one table cell; what docstrings set as code is code."""
    return pages.cell(text).replace("``", "`")


def spelled(kind: Any) -> str:
    """Return a type as a reader of templates says it."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " \\| ".join(f'"{a}"' for a in args)
    if origin in {typing.Union, types.UnionType}:
        if set(args) >= {str, int, float, bool, type(None)}:
            return "value"
        return " or ".join(dict.fromkeys("none" if a is type(None) else spelled(a) for a in args))
    if origin is tuple:
        inner = [a for a in args if a is not Ellipsis]
        return f"list of {' and '.join(spelled(a) for a in inner)}"
    if origin is dict:
        return f"map of {spelled(args[0])} to {spelled(args[1])}"
    return getattr(kind, "__name__", str(kind))


def remarks(cls: type) -> dict[str, str]:
    """Return the strings that stand behind the fields in the source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    last = ""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last:
            found[last] = str(node.value.value)
            last = ""
    return found


def record(cls: type) -> str:
    """Return the section of one record."""
    said = remarks(cls)
    hints = typing.get_type_hints(cls)
    lines = [
        f"\n### {cls.__name__}\n",
        f"{cell(inspect.getdoc(cls) or '')}\n",
        "| value | type | |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{field.name}` | {spelled(hints[field.name])} | {cell(said.get(field.name, ''))} |"
        for field in msgspec.structs.fields(cls)
    ]
    return "\n".join(lines)


def names(title: str, table: dict[str, tuple[str, str]]) -> str:
    """Return the table of a template's names."""
    rows = [f"| `{name}` | {kind} | {cell(text)} |" for name, (kind, text) in table.items()]
    return "\n".join([f"\n## {title}\n", "| name | type | |", "|---|---|---|", *rows])


def page() -> str:
    """Return the whole page."""
    from changegen.render import guard

    functions = [
        f"| `{name}({', '.join(inspect.signature(value).parameters)})` | {cell((inspect.getdoc(value) or '').splitlines()[0])} |"
        for name, value in view.WORDS.items()
        if callable(value)
    ]
    known = set(jinja.environment("markdown").filters)
    for name in ("rich", "code", "block", "value", "names", "cap", "dedupe", "when"):
        assert name in known, name
    return "\n".join(
        [
            HEAD.format(memory=guard.MEMORY_LIMIT >> 20, seconds=guard.TIME_LIMIT) + "\n".join(functions),
            names("Names in ticket templates, forms and gitlab.md.j2", TICKET_NAMES),
            names("Names in results.md.j2 and results.html.j2", RESULT_NAMES),
            "\n## Records\n",
            "“value” is a text, a number, true, false or none. `snapshot` and `profile` are the reading and the target as a whole;",
            "`changegen snapshot --schema` and `changegen profile schema` print theirs.",
            *(record(cls) for cls in ORDER),
            "",
        ]
    )


PAGES = {"docs/templates.md": page}


if __name__ == "__main__":
    sys.exit(pages.run(PAGES, "tools/make_template_docs.py", __doc__))
