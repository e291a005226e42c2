"""Figures as SVG, drawn from the ticket's data; each has a text alternative and reads in black and white.

Every text goes through the HTML escaper; widths are in user units, the page scales them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from changegen.i18n import tr
from changegen.model.ticket import InstanceRow, PoolRow, Step, Ticket
from changegen.render import escape as esc

INK = "#1b2430"
SOFT = "#5a6675"
LINE = "#c4ccd6"
ACCENT = "#1f4e79"
STOP = "#a4161a"
BAND = "#dfe7f0"
WIDTH = 720
_SHOWN = frozenset({"will-not-start", "locked-same", "redundant", "unchanged", "stage", "unknown"})
_MINOR = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
# How many minors behind the apiserver a component may run: Kubernetes version skew policy.
_BEHIND = {
    "kube-controller-manager": 1,
    "kube-scheduler": 1,
    "cloud-controller-manager": 1,
    "kubelet": 3,
    "kube-proxy": 3,
}


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: float = 11,
    anchor: str = "start",
    fill: str = INK,
    bold: bool = False,
) -> Markup:
    return Markup('<text x="{}" y="{}" font-size="{}" text-anchor="{}" fill="{}"{}>{}</text>').format(
        round(x, 1),
        round(y, 1),
        size,
        anchor,
        fill,
        Markup(' font-weight="700"') if bold else "",
        esc.one_line(text),
    )


def _svg(height: float, title: str, parts: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{t}" class="figure"><title>{t}</title>'
        '<rect x="0" y="0" width="{w}" height="{h}" fill="#ffffff"/>{body}</svg>'
    ).format(w=WIDTH, h=round(height), t=esc.one_line(title), body=Markup("").join(parts))


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _position(version: str, first: int, scale: float, left: float) -> float | None:
    match = _MINOR.search(version)
    if not match or match[1] != "1":
        return None
    return left + (int(match[2]) - first + 0.5) * scale


def versions(ticket: Ticket) -> Markup | None:
    """Draw versions before and after on an axis of minors, with the skew that the target apiserver allows."""
    rows: dict[str, list[InstanceRow]] = {}
    for row in ticket.instances:
        if _MINOR.match(row.current) and row.component not in {"etcd", "coredns"}:
            rows.setdefault(row.component, []).append(row)
    target = _MINOR.search(ticket.to_version)
    if not rows or not target or target[1] != "1":
        return None
    to_minor = int(target[2])
    minors = [int(m[2]) for group in rows.values() for r in group if (m := _MINOR.match(r.current))]
    first, last = min([*minors, to_minor - 3]), max([*minors, to_minor])
    left, top, step = 190.0, 34.0, 26.0
    scale = (WIDTH - left - 20) / (last - first + 1)
    parts: list[Markup] = []
    for minor in range(first, last + 1):
        x = left + (minor - first) * scale
        parts.append(_text(x + scale / 2, 18, f"1.{minor}", anchor="middle", fill=SOFT))
        parts.append(
            Markup('<line x1="{x}" y1="24" x2="{x}" y2="{b}" stroke="{c}" stroke-width="0.7"/>').format(
                x=round(x, 1), b=round(top + step * len(rows)), c=LINE
            )
        )
    told = []
    for index, (component, group) in enumerate(rows.items()):
        y = top + index * step
        behind = _BEHIND.get(component, 0)
        lowest = max(first, to_minor - behind)
        parts.append(
            Markup('<rect x="{}" y="{}" width="{}" height="14" rx="3" fill="{}"/>').format(
                round(left + (lowest - first) * scale + 2, 1),
                round(y + 3),
                round((to_minor - lowest + 1) * scale - 4, 1),
                BAND,
            )
        )
        parts.append(_text(0, y + 14, _clip(f"{component} ({len(group)})", 30)))
        moves: dict[tuple[str, str], int] = {}
        for row in group:
            moves[row.current, row.target] = moves.get((row.current, row.target), 0) + 1
        for (current, wanted), count in moves.items():
            a, b = _position(current, first, scale, left), _position(wanted, first, scale, left)
            if a is None:
                continue
            if b is not None and b != a:
                parts.append(
                    Markup(
                        '<line x1="{}" y1="{y}" x2="{}" y2="{y}" stroke="{c}" stroke-width="1.6"/>'
                    ).format(round(a, 1), round(b, 1), y=round(y + 10), c=ACCENT)
                )
                parts.append(
                    Markup('<circle cx="{}" cy="{}" r="5" fill="{}"/>').format(
                        round(b, 1), round(y + 10), ACCENT
                    )
                )
            parts.append(
                Markup('<circle cx="{}" cy="{}" r="5" fill="#ffffff" stroke="{}" stroke-width="2"/>').format(
                    round(a, 1), round(y + 10), ACCENT
                )
            )
            told.append(f"{component} {count}: {current} → {wanted}")
    height = top + step * len(rows) + 6
    return _svg(
        height,
        tr(
            "Versions before (ring) and after (dot); the band is what the target apiserver allows: {rows}",
            rows="; ".join(told),
        ),
        parts,
    )


def pools(rows: Sequence[PoolRow], limit: int = 40) -> Markup | None:
    """Draw devices by pool: filled is allocated, crossed is tainted, empty is free."""
    shown = rows[:limit]
    if not shown:
        return None
    parts: list[Markup] = []
    y = 8.0
    told = []
    for row in shown:
        parts.append(_text(0, y + 12, _clip(f"{row.driver} · {row.pool}", 46), size=10.5))
        count, held = row.devices, row.allocated or 0
        per = max(1, (WIDTH - 380) // 15)
        drawn = min(count, per)
        for index in range(drawn):
            x = 310 + index * 15
            allocated = index < round(held * drawn / max(count, 1)) if count > per else index < held
            tainted = index >= drawn - (row.tainted if count <= per else round(row.tainted * drawn / count))
            parts.append(
                Markup(
                    '<rect x="{}" y="{}" width="11" height="11" rx="2" fill="{}" stroke="{}" stroke-width="1.2"/>'
                ).format(x, round(y + 3), ACCENT if allocated else "#ffffff", ACCENT)
            )
            if tainted:
                parts.append(
                    Markup(
                        '<path d="M{x} {y} l11 11 M{x2} {y} l-11 11" stroke="{c}" stroke-width="1.6"/>'
                    ).format(x=x, x2=x + 11, y=round(y + 3), c=STOP)
                )
        parts.append(
            _text(
                WIDTH - 2,
                y + 12,
                f"{'?' if row.allocated is None else held}/{row.devices}",
                anchor="end",
                size=10.5,
                fill=SOFT,
            )
        )
        told.append(
            tr(
                "{pool}: {allocated} of {devices} allocated, {tainted} tainted",
                pool=f"{row.driver} {row.pool}",
                allocated="?" if row.allocated is None else held,
                devices=row.devices,
                tainted=row.tainted,
            )
        )
        y += 19
    return _svg(
        y + 6,
        tr("Devices by pool; filled is allocated, crossed is tainted. {rows}", rows="; ".join(told)),
        parts,
    )


def timeline(steps: Sequence[Step], title_of: dict[str, str]) -> Markup | None:
    """Draw the plan as a timeline by minutes, with the point of no return and the time to decide before it."""
    timed = [s for s in steps if s.phase != "before"]
    total = sum(s.minutes or 0 for s in timed)
    if not timed or not total:
        return None
    scale = (WIDTH - 20) / total
    parts: list[Markup] = []
    shades = {"control-plane": "#1f4e79", "nodes": "#5b87b2", "drivers": "#9db8d2", "after": "#d5e0eb"}
    x = 10.0
    marks: list[tuple[float, str]] = []
    told = []
    run_phase, run_start = timed[0].phase, x
    labels: list[tuple[float, float, str]] = []
    for step in timed:
        width = (step.minutes or 0) * scale
        if step.phase != run_phase:
            labels.append((run_start, x, run_phase))
            run_phase, run_start = step.phase, x
        if width:
            parts.append(
                Markup(
                    '<rect x="{}" y="30" width="{}" height="22" fill="{}" stroke="#ffffff" stroke-width="1"/>'
                ).format(round(x, 1), round(width, 1), shades.get(step.phase, LINE))
            )
            size = min(9.5, (width - 2) / (0.62 * len(step.id)))
            if size >= 5.5:
                light = step.phase in {"control-plane", "nodes"}
                parts.append(
                    _text(
                        x + width / 2,
                        45,
                        step.id,
                        anchor="middle",
                        size=round(size, 1),
                        fill="#ffffff" if light else INK,
                    )
                )
        if step.no_return:
            marks.append((x, step.id))
        x += width
        told.append(f"{step.id} {step.minutes or 0} min")
    labels.append((run_start, x, run_phase))
    for start, end, phase in labels:
        parts.append(
            _text(
                (start + end) / 2,
                68,
                _clip(title_of.get(phase, phase), max(4, int((end - start) / 6))),
                anchor="middle",
                size=9.5,
                fill=SOFT,
            )
        )
    for at, name in marks:
        parts.append(
            Markup('<path d="M{} 28 l-5 -8 h10 z" fill="{}"/>').format(round(at, 1), STOP)
            + Markup(
                '<line x1="{x}" y1="28" x2="{x}" y2="58" stroke="{c}" stroke-width="2.4" stroke-dasharray="4 2"/>'
            ).format(x=round(at, 1), c=STOP)
        )
        late = at > WIDTH * 0.5
        parts.append(
            _text(
                at + 5 if late else at - 5,
                14,
                tr("point of no simple return: decide before {step} starts", step=name),
                anchor="end" if late else "start",
                size=10,
                fill=STOP,
                bold=True,
            )
        )
    every = _tick(total)
    for minute in range(0, total + 1, every):
        at = 10.0 + minute * scale
        parts.append(
            Markup('<line x1="{x}" y1="52" x2="{x}" y2="56" stroke="{c}" stroke-width="1"/>').format(
                x=round(at, 1), c=SOFT
            )
        )
        label = str(minute) if minute else tr("0 min")
        parts.append(_text(at, 84, label, anchor="middle" if minute else "start", size=9, fill=SOFT))
    return _svg(90, tr("The plan in minutes: {steps}", steps=", ".join(told)), parts)


def _tick(total: int) -> int:
    """Return the minutes between two marks: a round number that gives about eight of them."""
    return next((n for n in (5, 10, 15, 30, 60, 120, 240, 480) if total / n <= 9), 1440)


def gate_matrix(ticket: Ticket) -> Markup | None:
    """Draw the gates that are set, by component: what the target does to each."""
    rows = [
        r
        for r in ticket.forecast
        if r.kind == "gate" and r.name != "*" and r.effect in _SHOWN and (r.provenance or r.effect != "stage")
    ]
    names = list(dict.fromkeys(r.name for r in rows))[:30]
    components = list(dict.fromkeys(r.component for r in rows))
    if not names:
        return None
    left, top, step = 300.0, 40.0, 20.0
    scale = (WIDTH - left) / len(components)
    parts: list[Markup] = []
    for column, component in enumerate(components):
        parts.append(
            _text(
                left + (column + 0.5) * scale,
                24,
                _clip(component.replace("kube-", ""), 18),
                anchor="middle",
                size=10,
                fill=SOFT,
            )
        )
    told = []
    running = Counter(row.component for row in ticket.instances)
    sign = {
        "will-not-start": "✖",
        "locked-same": "=",
        "redundant": "=",
        "unchanged": "·",
        "stage": "↑",
        "unknown": "?",
    }
    for line, name in enumerate(names):
        y = top + line * step
        parts.append(_text(0, y + 12, _clip(name, 44), size=10.5))
        for column, component in enumerate(components):
            found = [r for r in rows if r.name == name and r.component == component]
            if not found:
                continue
            worst = next((r for r in found if r.effect == "will-not-start"), found[0])
            label = f"{sign[worst.effect]} {worst.today}"
            setting, all_of = len({i for r in found for i in r.instances}), running.get(component, 0)
            if setting < all_of:
                label = tr("{label}, {n} of {all}", label=label, n=setting, all=all_of)
            stop = worst.effect == "will-not-start"
            parts.append(
                _text(
                    left + (column + 0.5) * scale,
                    y + 12,
                    _clip(label, int(scale / 6.4)),
                    anchor="middle",
                    size=10,
                    fill=STOP if stop else INK,
                    bold=stop,
                )
            )
            told.append(f"{name} {component}: {worst.today} → {worst.at_target}")
        parts.append(
            Markup('<line x1="0" y1="{y}" x2="{w}" y2="{y}" stroke="{c}" stroke-width="0.5"/>').format(
                y=round(y + 17), w=WIDTH, c=LINE
            )
        )
    return _svg(
        top + step * len(names) + 4,
        tr("Gates that are set, by component: {rows}", rows="; ".join(told)),
        parts,
    )
