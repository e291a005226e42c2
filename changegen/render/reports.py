"""Reports for terminals and pipelines: text, SARIF and JUnit of findings and of verify's results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from changegen.i18n import tr
from changegen.model.ticket import Deviation, Finding, Results
from changegen.render import escape as esc
from changegen.render import view
from changegen.render.jinja import value_text

_SARIF_LEVEL = {"blocking": "error", "warning": "warning", "info": "note"}
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _plain(text: str) -> str:
    return esc.one_line(text).replace("`", "")


def findings_text(findings: Sequence[Finding]) -> str:
    """Return findings for a terminal, blockers first; no colour, no control characters."""
    lines = []
    for finding in findings:
        accepted = ""
        if finding.accepted:
            state = tr("acceptance expired") if finding.accepted.expired else tr("accepted")
            accepted = f" [{state}: {_plain(finding.accepted.reason)}, {_plain(finding.accepted.owner)}, {finding.accepted.until}]"
        lines.append(
            f"{view.severity_word(finding.severity).upper():9} {finding.code}  {_plain(finding.message)}{accepted}"
        )
        lines.append(f"          {_plain(view.where(finding))}")
        if finding.advice:
            lines.append(f"          → {_plain(finding.advice)}")
    if not lines:
        return tr("No findings.") + "\n"
    return "\n".join(lines) + "\n"


def _deviations(title: str, rows: Sequence[Deviation]) -> list[str]:
    if not rows:
        return []
    lines = [f"{title} ({len(rows)})"]
    for row in rows:
        values = " → ".join(_plain(v) for v in (row.before, row.actual) if v)
        planned = f" [{tr('planned')}: {_plain(row.planned)}]" if row.planned else ""
        count = f" ({row.count}×)" if row.count > 1 else ""
        code = f"{row.code} " if row.code else ""
        lines.append(
            f"  {code}{_plain(row.what)}{count}: {values}{planned}"
            if values or planned
            else f"  {code}{_plain(row.what)}{count}"
        )
        if row.why:
            lines.append(f"      {_plain(row.why)}")
    return [*lines, ""]


def results_text(results: Results) -> str:
    """Return the closing report for a terminal: the outcome first, then what deviates, then the checklist."""
    word = {
        "passed": tr("Passed"),
        "failed": tr("FAILED"),
        "incomplete": tr("Incomplete: what could not be read has not passed"),
    }
    lines = [f"{tr('{word}.', word=word[results.outcome])} {_plain(results.headline)}", ""]
    lines += _deviations(tr("Planned and not done"), results.not_done)
    lines += _deviations(tr("Done and not planned"), results.unplanned)
    lines += _deviations(tr("Planned and done"), view.planned_done(results))
    lines += _deviations(tr("Consequences of the planned change"), view.consequences(results))
    lines += _deviations(tr("What this reading does not tell"), results.unknown)
    if results.ticked:
        lines.append(f"{tr('Steps that people ticked as done')} ({len(results.ticked)})")
        lines += [_plain(f"  {row.id} {row.title}: {view.tick_word(row)}") for row in results.ticked]
        lines.append("")
    for layer in view.layers(results.checks, results.results):
        lines.append(layer.title)
        for check, result in layer.rows:
            mark = view.result_mark(result.result if result else None)
            found = f": {_plain(value_text(result.actual))}" if result and result.actual is not None else ""
            reason = f" ({_plain(result.reason)})" if result and result.reason else ""
            lines.append(f"  {mark} {check.id:6} {_plain(check.title)}{found}{reason}")
        lines.append("")
    return "\n".join(lines)


def sarif(findings: Sequence[Finding], rules: Sequence[tuple[str, str, str]], tool_version: str) -> str:
    """Return SARIF 2.1.0 of findings; the place of each is logical, since no source file is at fault.

    Args:
        findings: the findings; accepted ones are written as suppressed with their reason.
        rules: (code, title, meaning) of every code that occurs.
        tool_version: version of changegen.
    """
    used = {f.code for f in findings}
    table = [rule for rule in rules if rule[0] in used]
    index = {rule[0]: number for number, rule in enumerate(table)}
    results = []
    for finding in findings:
        result: dict[str, object] = {
            "ruleId": finding.code,
            "level": _SARIF_LEVEL[finding.severity],
            "message": {"text": esc.one_line(finding.message)},
            "locations": [
                {
                    "logicalLocations": [
                        {
                            "fullyQualifiedName": esc.one_line(name),
                            "kind": "resource",
                        }
                    ]
                }
                for name in (finding.subject.instances or (view.where(finding),))
            ],
            "partialFingerprints": {"changegen/v1": finding.id},
        }
        if finding.code in index:
            result["ruleIndex"] = index[finding.code]
        if finding.accepted and not finding.accepted.expired:
            result["suppressions"] = [
                {"kind": "external", "justification": esc.one_line(finding.accepted.reason)}
            ]
        results.append(result)
    document = {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "changegen",
                        "version": tool_version,
                        "rules": [
                            {
                                "id": code,
                                "shortDescription": {"text": title},
                                "fullDescription": {"text": meaning or title},
                            }
                            for code, title, meaning in table
                        ],
                    }
                },
                "results": results,
            }
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _suite(root: ET.Element, name: str, cases: Sequence[tuple[str, str, str, str]]) -> None:
    """Add a suite of (class, name, outcome, text); outcome is pass, fail or skip."""
    suite = ET.SubElement(
        root,
        "testsuite",
        name=name,
        tests=str(len(cases)),
        failures=str(sum(c[2] == "fail" for c in cases)),
        skipped=str(sum(c[2] == "skip" for c in cases)),
        errors="0",
    )
    for group, title, outcome, text in cases:
        case = ET.SubElement(suite, "testcase", classname=esc.one_line(group), name=esc.one_line(title))
        if outcome == "fail":
            ET.SubElement(case, "failure", message=esc.one_line(text)).text = esc.visible(text)
        elif outcome == "skip":
            ET.SubElement(case, "skipped", message=esc.one_line(text))


def _xml(root: ET.Element) -> str:
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def findings_junit(
    findings: Sequence[Finding], codes: Sequence[tuple[str, str, str]], fail_on: Sequence[str]
) -> str:
    """Return JUnit XML: a case for every code that was looked for; it fails where a finding of that weight stands.

    Args:
        findings: the findings.
        codes: (code, title, meaning) of the whole table.
        fail_on: severities that fail.
    """
    root = ET.Element("testsuites", name="changegen audit")
    cases: list[tuple[str, str, str, str]] = []
    for code, title, _meaning in codes:
        mine = [f for f in findings if f.code == code]
        if not mine:
            cases.append((code, title, "pass", ""))
        for finding in mine:
            text = f"{_plain(finding.message)} ({_plain(view.where(finding))})"
            accepted = finding.accepted is not None and not finding.accepted.expired
            outcome = "skip" if accepted else "fail" if finding.severity in fail_on else "pass"
            cases.append((code, f"{title}: {view.where(finding)}", outcome, text))
    _suite(root, "findings", cases)
    return _xml(root)


def results_junit(results: Results) -> str:
    """Return JUnit XML of verify: checks by layer, and deviations that were not planned or not done."""
    root = ET.Element("testsuites", name="changegen verify")
    outcome = {"pass": "pass", "fail": "fail", "unknown": "skip", "attested": "skip"}
    for layer in view.layers(results.checks, results.results):
        _suite(
            root,
            f"checks: {layer.layer}",
            [
                (
                    layer.layer,
                    f"{check.id} {check.title}",
                    outcome[result.result] if result else "skip",
                    (result.reason or value_text(result.actual)) if result else tr("not filled"),
                )
                for check, result in layer.rows
            ],
        )
    for name, rows in (
        ("planned and not done", results.not_done),
        ("done and not planned", results.unplanned),
    ):
        _suite(
            root,
            name,
            [(name, row.what, "fail", f"{row.before} → {row.actual} {row.why}".strip()) for row in rows],
        )
    return _xml(root)
