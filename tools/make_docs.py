"""Make the docs pages that are generated from the program: the table of finding codes.

`python tools/make_docs.py` writes them; with `--check` it writes nothing and fails where a page is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from changegen.assess.codes import CODES, Code  # noqa: E402
from tools import pages  # noqa: E402

AREAS = {
    "GATE": "Feature gates",
    "KUBEADM": "kubeadm's configuration",
    "EMUL": "Emulated version",
    "DISTRO": "Releases of the distribution",
    "OPENSHIFT": "OpenShift",
    "FLAG": "Flags and --runtime-config",
    "CONFIG": "Configuration files of kubelet, kube-proxy and kube-scheduler",
    "API": "APIs",
    "VERSION": "Versions",
    "LEFT": "Left behind after the change",
    "SKEW": "Version skew",
    "ETCD": "etcd",
    "DRIFT": "Sources that disagree",
    "RUN": "What really runs",
    "NODE": "Nodes",
    "PART": "Other parts of the cluster",
    "READ": "The reading itself",
    "WEBHOOK": "Admission webhooks",
    "POLICY": "The profile's wishes",
    "DRIVER": "DRA drivers",
    "SLICE": "ResourceSlices",
    "TAINT": "Device taints",
    "EXT": "Extended resources",
    "CAP": "Capacity",
    "PDB": "Disruption budgets",
    "DRAIN": "Drains",
    "CLAIM": "ResourceClaims",
    "FEATURE": "Features of dynamic resource allocation",
    "HEALTH": "Device health",
    "PENDING": "Pods that do not start",
    "ATTR": "Attributes and selectors of devices",
    "DRA": "Wanted features of dynamic resource allocation",
    "RBAC": "Rights of drivers and autoscaler",
    "EVENT": "Warning events",
    "TROUBLE": "Troubleshooting",
}
HEAD = """# Codes of findings

<!-- Made by tools/make_docs.py from the table in changegen/assess/codes.py. Do not edit. -->

Every finding has a code. A code is never given to anything else, so that a profile that accepts one, or a program that
filters by one, keeps its meaning. `blocking` means: do not start the change. Where two severities stand, the finding says
which one it has, by what was seen.

A finding is accepted in the profile, with a reason, an owner and a last day; it stays visible:

```yaml
accept:
- {code: CG-DRIFT-003, subject: kube-scheduler/cp-3, reason: replaced next week, owner: platform, until: 2027-01-31}
```

`subject` is a component, a component with an instance or name behind a slash, or an instance by itself; `*` at the end
matches a prefix; without it every finding of the code is accepted.
"""


def cell(text: str) -> str:
    """Return text for one table cell; what looks like a tag stays text."""
    return pages.cell(text).replace("<", "&lt;")


def row(code: Code) -> str:
    """One line of an area's table."""
    severity = " or ".join(dict.fromkeys((code.severity, *code.others)))
    minors = ""
    if code.since_minor or code.until_minor:
        minors = f" Targets {code.since_minor or 'any'} to {code.until_minor or 'the newest'}."
    title = f"~~{code.title}~~ (retired)" if code.retired else code.title
    return f"| `{code.code}` | {severity} | **{cell(title)}.** {cell(code.meaning)}{minors} | {cell(code.remedy)} |"


def page(codes: Iterable[Code]) -> str:
    """The page of codes."""
    order = list(AREAS)
    rows = sorted(
        codes, key=lambda c: (order.index(c.area) if c.area in AREAS else len(order), c.area, c.code)
    )
    parts = [HEAD]
    for area, group in groupby(rows, key=lambda c: c.area):
        parts.append(f"\n## {AREAS.get(area, area)}\n")
        parts.append("| code | severity | meaning | what to do |")
        parts.append("|---|---|---|---|")
        parts.extend(row(code) for code in group)
    return "\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {"docs/codes.md": lambda: page(CODES.values())}


if __name__ == "__main__":
    sys.exit(pages.run(PAGES, "tools/make_docs.py", __doc__))
