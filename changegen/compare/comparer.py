"""Two snapshots -> a comparison, area by area."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Literal

import msgspec

from changegen.compare.areas import (
    AREAS,
    CLAIMS,
    COMPONENTS,
    LISTS,
    PODS,
    RESOURCE,
    Area,
    always,
    by_key,
    component_map,
    named,
    pod_group,
    pod_owner,
)
from changegen.compare.tables import HASH_LABELS, NEW_OBJECT, Names, Side
from changegen.compare.walk import Walk, joined_value, shown_value, unhashed
from changegen.i18n import tr
from changegen.model import snapshot as s
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import Change, Comparison, NotComparable
from changegen.store import digest_of


class _Reading:
    """What one side could have seen."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.namespaces = snapshot.namespaces_read
        # A list that was cut or refused in part shows what is there, and says nothing of what is not.
        cut = {
            u.what
            for u in snapshot.unobserved
            if u.failed and not (u.reason == "forbidden" and u.what in self.namespaces)
        }
        self.kinds = (frozenset(snapshot.kinds_read) | ({"apis"} if snapshot.apis else frozenset())) - cut
        self.reasons: dict[str, str] = {}
        for entry in snapshot.unobserved:
            self.reasons.setdefault(entry.what, entry.reason)

    def missing(self, needs: Names, namespace: str) -> str | None:
        """Return the kind whose absence forbids to say that something is not there; None when it can be said."""
        if not needs:
            return ""
        for kind in needs:
            if kind in self.kinds and (
                not namespace or kind not in self.namespaces or namespace in self.namespaces[kind]
            ):
                return None
        return needs[0]

    def why(self, kind: str) -> str:
        return self.reasons.get(kind, "not-in-capture")


class _Comparer:
    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before, after
        self.readings = {"before": _Reading(before), "after": _Reading(after)}
        self.changes: list[Change] = []
        self.unseen: dict[tuple[str, str, Side], list[str]] = {}
        """(area, kind that was not read, side that lacks it) -> things that the other side has."""
        self.unread: dict[tuple[str, Names, Side], list[str]] = {}

    # -- one thing against nothing

    def alone(
        self, walk: Walk, area: Area, subject: str, item: Any, side: Literal["before", "after"]
    ) -> None:
        """Tell a thing that only one side has: as new or gone if the other side could have seen it."""
        other: Literal["before", "after"] = "after" if side == "before" else "before"
        namespace = getattr(item, "namespace", "") or ""
        missing = self.readings[other].missing(area.needs(item), namespace)
        if missing is not None:
            self.unseen.setdefault((area.name, missing, other), []).append(subject)
            return
        told = {f: joined_value(shown_value(getattr(item, f), f"{area.name}[].{f}")) for f in area.summary}
        told = {f: v for f, v in told.items() if v not in ("", None, 0)}
        if side == "before":
            walk.add("removed", (), subject, told or None, None)
        else:
            walk.add("added", (), subject, None, told or None)

    def keyed(self, area: Area, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        walk = Walk(area.name)
        walk.listed = f"resourceslices.{RESOURCE}" in self.readings["after"].kinds
        for key in sorted({*before, *after}):
            if key not in after:
                self.alone(walk, area, key, before[key], "before")
            elif key not in before:
                self.alone(walk, area, key, after[key], "after")
            elif before[key] != after[key]:
                self.one(walk, area.name, key, before[key], after[key])
        self.close(walk)

    def one(
        self, walk: Walk, area: str, subject: str, before: Any, after: Any, *, replaced: bool = False
    ) -> None:
        """Compare two of a kind; a new object of the same name is told as one."""
        skip: frozenset[str] = frozenset({"devices"}) if area == "pools" else frozenset()
        if area in NEW_OBJECT:
            new = replaced or (bool(getattr(before, "uid", "")) and before.uid != after.uid)
            if new:
                skip = NEW_OBJECT[area]
                if not replaced:
                    walk.add(
                        "changed",
                        ("uid",),
                        subject,
                        before.uid,
                        after.uid,
                        tr("a new object of the same name"),
                    )
                    skip -= {"node"} if area == "pods" else set()
                    skip -= {"devices", "node"} if area == "claims" else set()
        if area == "pods" and skip:
            before, after = _fresh(before), _fresh(after)
        walk.pair(subject, before, after, f"{area}[]", skip)

    def close(self, walk: Walk) -> None:
        for (kind, path, old, new, note), subjects in walk.found.items():
            self.changes.append(
                Change(
                    kind=kind,
                    area=walk.area,
                    path=path,
                    subjects=tuple(sorted(subjects)),
                    before=unhashed(old),
                    after=unhashed(new),
                    count=len(subjects),
                    note=note,
                )
            )
        for key, subjects in walk.unread.items():
            self.unread.setdefault(key, []).extend(subjects)

    # -- areas

    def run(self) -> Comparison:
        """Compare everything."""
        a, b = self.before, self.after
        self.single("cluster", a.cluster, b.cluster)
        self.components()
        for area in LISTS:
            old, new = getattr(a, area.name), getattr(b, area.name)
            if old != new:
                self.keyed(area, by_key(old, area.key), by_key(new, area.key))
        if a.pools != b.pools:
            self.devices()
        self.pods()
        self.claims()
        self.openshift()
        return self.result()

    def single(self, area: str, before: Any, after: Any) -> None:
        if before == after:
            return
        walk = Walk(area)
        walk.pair(area, before, after, area)
        self.close(walk)

    def openshift(self) -> None:
        a, b = self.before.openshift, self.after.openshift
        if a == b:
            return
        if not a or not b:
            kind = "clusterversions.config.openshift.io"
            side: Literal["before", "after"] = "after" if a else "before"
            if self.readings[side].missing((kind,), "") is not None:
                self.unseen.setdefault(("openshift", kind, side), []).append("openshift")
                return
        walk = Walk("openshift")
        for key in sorted({*a, *b}):
            if key not in b:
                walk.add("removed", (key,), "openshift", a[key], None)
            elif key not in a:
                walk.add("added", (key,), "openshift", None, b[key])
            elif a[key] != b[key]:
                walk.add("changed", (key,), "openshift", a[key], b[key])
        self.close(walk)

    def devices(self) -> None:
        def keyed(pools: Iterable[s.Pool]) -> dict[str, s.Device]:
            return {f"{p.driver}/{p.name}/{d.name}": d for p in pools for d in p.devices}

        area = Area(name="devices", key=named("name"), needs=always(f"resourceslices.{RESOURCE}"))
        walk = Walk("devices")
        before, after = keyed(self.before.pools), keyed(self.after.pools)
        for key, device in before.items():
            other = after.get(key)
            if other is None:
                self.alone(walk, area, key, device, "before")
            elif other != device:
                walk.pair(key, device, other, "pools[].devices[]")
        for key, device in after.items():
            if key not in before:
                self.alone(walk, area, key, device, "after")
        self.close(walk)

    def components(self) -> None:
        a, b = self.before.components, self.after.components
        if a == b:
            return

        def group(item: s.Component) -> tuple[str | None, ...] | None:
            return (item.component, item.namespace, item.belongs_to) if item.kind == "pod" else None

        self._with_replaced(
            COMPONENTS, component_map(a), component_map(b), group, lambda item: f"{item.component} Pods"
        )

    def pods(self) -> None:
        a, b = self.before.pods, self.after.pods
        if a == b:
            return
        self._with_replaced(PODS, by_key(a, PODS.key), by_key(b, PODS.key), pod_group, pod_owner)

    def claims(self) -> None:
        a, b = self.before.claims, self.after.claims
        if a == b:
            return
        owners = {
            (p.namespace, p.name): p.owner
            for p in chain(self.before.pods, self.after.pods)
            if p.owner is not None
        }

        def group(claim: s.Claim) -> tuple[str, ...] | None:
            if not (claim.template or claim.extended_resource):
                return None
            owner = owners.get((claim.namespace, claim.owner.removeprefix("Pod/")))
            if owner is None:
                return None
            return (claim.namespace, owner.kind, owner.name, claim.template or "<extended-resources>")

        def told(claim: s.Claim) -> str:
            _, kind, name, template = group(claim) or ("", "", "", "")
            return tr(
                "claims {template} of {owner}", template=template, owner=f"{kind} {claim.namespace}/{name}"
            )

        self._with_replaced(CLAIMS, by_key(a, CLAIMS.key), by_key(b, CLAIMS.key), group, told)

    def _with_replaced(
        self,
        area: Area,
        before: dict[str, Any],
        after: dict[str, Any],
        group: Callable[[Any], tuple[str | None, ...] | None],
        told: Callable[[Any], str],
    ) -> None:
        """Compare an area in which things are replaced under new names.

        Args:
            area: Names the things that keep their name.
            before: Things by key.
            after: The same of the other side.
            group: What the old and the new one have in common; None for what has no successor.
            told: The subject under which replaced ones are told.
        """
        walk = Walk(area.name)
        replaced = self._replaced(before, after, group)
        self._tell_replaced(walk, area, replaced, told)
        self.close(walk)
        gone = {k for k, *_ in chain.from_iterable(replaced.values())}
        come = {k for _, k, *_ in chain.from_iterable(replaced.values())}
        self.keyed(
            area,
            {k: v for k, v in before.items() if k not in gone},
            {k: v for k, v in after.items() if k not in come},
        )

    def _replaced(
        self, before: Mapping[str, Any], after: Mapping[str, Any], group: Callable[[Any], Any]
    ) -> dict[Any, list[tuple[str, str, Any, Any]]]:
        """Pair things of one owner that have new names: those on the same node first, then in order of name."""
        left: dict[Any, list[tuple[str, Any]]] = {}
        right: dict[Any, list[tuple[str, Any]]] = {}
        for key in sorted(k for k in before if k not in after):
            if (owner := group(before[key])) is not None:
                left.setdefault(owner, []).append((key, before[key]))
        for key in sorted(k for k in after if k not in before):
            if (owner := group(after[key])) is not None:
                right.setdefault(owner, []).append((key, after[key]))
        pairs: dict[Any, list[tuple[str, str, Any, Any]]] = {}
        for owner in sorted(left.keys() & right.keys()):
            olds, news = left[owner], right[owner]
            taken: set[str] = set()
            rest: list[tuple[str, Any]] = []
            for key, item in olds:
                same = next((n for n in news if n[0] not in taken and n[1].node == item.node), None)
                if same is None:
                    rest.append((key, item))
                else:
                    taken.add(same[0])
                    pairs.setdefault(owner, []).append((key, same[0], item, same[1]))
            free = [n for n in news if n[0] not in taken]
            pairs.setdefault(owner, []).extend(
                (key, new[0], item, new[1]) for (key, item), new in zip(rest, free, strict=False)
            )
        return pairs

    def _tell_replaced(
        self,
        walk: Walk,
        area: Area,
        replaced: Mapping[Any, list[tuple[str, str, Any, Any]]],
        told: Callable[[Any], str],
    ) -> None:
        by_owner: dict[str, list[tuple[str, str, Any, Any]]] = {}
        for pairs in replaced.values():
            for pair in pairs:
                by_owner.setdefault(told(pair[2]), []).append(pair)
        for owner, pairs in by_owner.items():
            self.changes.append(
                Change(
                    kind="changed",
                    area=area.name,
                    path=("replaced",),
                    subjects=(owner,),
                    before=tuple(_with_node(key, item) for key, _, item, _ in pairs),
                    after=tuple(_with_node(key, item) for _, key, _, item in pairs),
                    count=len(pairs),
                    note=tr("replaced under new names"),
                )
            )
            for old, new, before, after in pairs:
                if _fresh(before) != _fresh(after) or old != new:
                    self.one(walk, area.name, new, before, after, replaced=True)

    # -- what could not be compared

    def result(self) -> Comparison:
        order = {name: i for i, name in enumerate(AREAS)}
        changes = sorted(
            self.changes,
            key=lambda c: (order[c.area], c.path, c.kind, c.subjects, repr(c.before), repr(c.after)),
        )
        return Comparison(
            before=_label(self.before),
            after=_label(self.after),
            before_digest=digest_of(self.before),
            after_digest=digest_of(self.after),
            changes=tuple(changes),
            not_comparable=self.not_comparable(),
        )

    def not_comparable(self) -> tuple[NotComparable, ...]:
        rows: set[tuple[str, str, Side, str]] = set()
        told: set[tuple[str, Side]] = set()
        for (area, kind, side), subjects in self.unseen.items():
            if kind:
                told.add((kind, side))
                why = self.readings[side].why(kind)
                what = tr("{kind}: {n} that the other side has", kind=kind, n=len(subjects))
                rows.add((area, what, side, why))
            else:
                rows.update((area, subject, side, "not-in-capture") for subject in subjects)
        for (area, path, side), subjects in self.unread.items():
            rows.add(
                (
                    area,
                    tr("{path} of {names}", path=".".join(path), names=_capped(subjects)),
                    side,
                    "unobservable",
                )
            )
        rows.update(self._unobserved(told))
        rows.update(self._kinds(told))
        ordered = sorted(rows)
        return tuple(NotComparable(area=a, what=w, side=side, reason=r) for a, w, side, r in ordered)

    def _unobserved(self, told: set[tuple[str, Side]]) -> Iterable[tuple[str, str, Side, str]]:
        before = {u.what: u.reason for u in self.before.unobserved}
        after = {u.what: u.reason for u in self.after.unobserved}
        for what in sorted({*before, *after}):
            side: Side = (
                "both" if what in before and what in after else "before" if what in before else "after"
            )
            if side != "both" and (what, side) in told:
                continue
            reasons = dict.fromkeys(r for r in (before.get(what), after.get(what)) if r)
            yield ("reading", what, side, ", ".join(reasons))

    def _kinds(self, told: set[tuple[str, Side]]) -> Iterable[tuple[str, str, Side, str]]:
        a, b = self.before, self.after
        named = {u.what for u in chain(a.unobserved, b.unobserved)}
        for kind in sorted(set(a.kinds_read) ^ set(b.kinds_read)):
            side: Side = "after" if kind in a.kinds_read else "before"
            if kind not in named and (kind, side) not in told:
                yield ("reading", kind, side, "not-in-capture")
        for kind in sorted({*a.namespaces_read, *b.namespaces_read}):
            old, new = a.namespaces_read.get(kind), b.namespaces_read.get(kind)
            if old != new:
                sides: Side = "before" if new is None else "after" if old is None else "both"
                what = tr(
                    "{kind}: namespaces read before: {before}; after: {after}",
                    kind=kind,
                    before=tr("all") if old is None else ", ".join(old),
                    after=tr("all") if new is None else ", ".join(new),
                )
                yield ("reading", what, sides, "not-asked")


def _capped(subjects: list[str], limit: int = 4) -> str:
    names = sorted(set(subjects))
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else tr("{names} and {n} more", names=shown, n=len(names) - limit)


def _with_node(key: str, item: Any) -> str:
    node = getattr(item, "node", "") or ""
    return f"{key} ({node})" if node and not key.endswith(f" {node}") else key


def _fresh(item: Any) -> Any:
    """Return a Pod without what every new Pod has anew: restarts, hashes in labels, names of generated claims."""
    if not isinstance(item, s.PodUse):
        return item
    replace = msgspec.structs.replace
    return replace(
        item,
        restarts=0,
        containers=tuple(
            replace(c, restarts=0, started_at="", exit_code=None, message="") for c in item.containers
        ),
        labels={k: v for k, v in item.labels.items() if k not in HASH_LABELS},
        claims=tuple(
            replace(c, claim="") if c.template or c.pod_claim.startswith("<") else c for c in item.claims
        ),
    )


def _label(snapshot: Snapshot) -> str:
    parts = (snapshot.cluster.name, snapshot.cluster.server_version or "", snapshot.captured_at)
    return " ".join(part for part in parts if part) or snapshot.source.description


def compare(before: Snapshot, after: Snapshot) -> Comparison:
    """Return what changed from ``before`` to ``after``.

    ``not_comparable`` holds what only one side could read (``side`` is the one that lacks it) and what neither did; a
    thing of such a kind is never told as new or gone.
    """
    return _Comparer(before, after).run()
