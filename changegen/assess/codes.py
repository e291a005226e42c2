"""Codes of findings: one table, and the one way to make a finding from it.

A code names one kind of thing that a reader must know, for good: it is never given to something else, and one that is
no longer made stays in the table as retired. Each module of `changegen.assess` declares its own codes in a tuple
`CODES`; `CODES` of this module is the table of all of them, put together when it is first asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Final

import msgspec

from changegen.i18n import tr
from changegen.model.ticket import Evidence, Finding, Severity, Subject

__all__ = ["CODES", "MODULES", "Code", "DuplicateCodeError", "finding", "identity"]

MODULES: Final = (
    "gates",
    "defaults",
    "platform",
    "releases",
    "flags",
    "configs",
    "apis",
    "versions_check",
    "skew",
    "etcd",
    "drift",
    "parts",
    "webhooks",
    "policy",
    "drivers",
    "taints",
    "extended",
    "capability",
    "capacity",
    "health",
    "troubleshoot",
)
"""Modules of `changegen.assess` that make findings, in the order in which the docs list their areas."""

_CODE = re.compile(r"^CG-[A-Z]+-[0-9]{3}$")


class DuplicateCodeError(ValueError):
    """Two modules declare one code, or a code is not spelled `CG-AREA-000`: a fault of the program."""


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table.

    `severity` is what its findings have unless the place that makes one states another (`finding(severity=…)`);
    `others` names the severities that such a place may choose.
    """

    code: str
    """`CG-GATE-001`"""
    title: str
    """Short, for tables; an English msgid without fields."""
    severity: Severity
    others: tuple[Severity, ...] = ()
    meaning: str
    """What is the case and how it is told; for the docs."""
    remedy: str
    """What to do; for the docs, and the advice of a finding that has no better one."""
    since_minor: str = ""
    """First Kubernetes minor as a target for which it can be made; empty: any."""
    until_minor: str = ""
    """Last such minor; empty: any."""
    retired: bool = False

    @property
    def area(self) -> str:
        """`GATE` of `CG-GATE-001`."""
        return self.code.split("-")[1]


class _Table(Mapping[str, Code]):
    """Code → row, put together from the modules when first asked: they need `Code` before the table can be made."""

    def __init__(self) -> None:
        self._rows: dict[str, Code] | None = None

    def _load(self) -> dict[str, Code]:
        if self._rows is None:
            rows: dict[str, Code] = {}
            for name in MODULES:
                module = f"changegen.assess.{name}"
                try:
                    declared: Iterable[Code] = import_module(module).CODES
                except ModuleNotFoundError as error:
                    if error.name != module:
                        raise
                    continue
                for row in declared:
                    if not _CODE.match(row.code) or row.code in rows:
                        raise DuplicateCodeError(f"{row.code} of {name} is declared twice or misspelled")
                    rows[row.code] = row
            self._rows = rows
        return self._rows

    def __getitem__(self, code: str) -> Code:
        return self._load()[code]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())


CODES: Final[Mapping[str, Code]] = _Table()
"""Every code that there is, by its text."""


def identity(code: str, subject: Subject) -> str:
    """The id of a finding: its code and subject, `CG-GATE-001 kube-apiserver SidecarContainers`."""
    parts = [code, subject.component, subject.name]
    if not subject.name and subject.instances:
        parts.append(subject.instances[0])
    return " ".join(part for part in parts if part)


def finding(
    code: Code,
    message: str,
    *,
    component: str = "",
    instances: Iterable[str] = (),
    name: str = "",
    evidence: Iterable[Evidence] = (),
    advice: str | None = None,
    severity: Severity | None = None,
    preexisting: bool = False,
    hop: str = "",
) -> Finding:
    """Makes a finding of a code.

    Args:
        code: The row that it is made of; gives title, severity and, where none is said, the advice.
        message: What is the case, already in the reader's language.
        component: A component or the kind of the subject (`kube-apiserver`, `Node`, `driver`).
        instances: What shows it: `namespace/name` of Pods, names of nodes …; sorted here.
        name: The thing within: a gate, a flag, an API.
        evidence: Where it was seen, best first.
        advice: What to do, in words; None takes the table's remedy.
        severity: Another severity than the table's; one of the row's `others`.
        preexisting: A fault that was there before the change.
        hop: The minor step that it belongs to, `1.36 -> 1.37`.
    """
    if severity is not None and severity != code.severity and severity not in code.others:
        raise ValueError(f"{code.code} is never {severity}")
    subject = Subject(component=component, instances=tuple(sorted(set(instances))), name=name)
    return Finding(
        id=identity(code.code, subject),
        code=code.code,
        severity=severity or code.severity,
        subject=subject,
        title=tr(code.title),
        message=message,
        evidence=tuple(evidence),
        advice=tr(code.remedy) if advice is None else advice,
        preexisting=preexisting,
        hop=hop,
    )
