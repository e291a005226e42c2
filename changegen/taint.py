"""Whom a device taint would hit: the blast radius of a DeviceTaintRule or of a driver's taint, and its rollout. Pure.

What the components do, read in their source (1.35.4 to 1.37.2):

- The eviction controller (kube-controller-manager) matches a rule's selector with the driver, pool and device of each
  **allocation**, published or not; no selector at all matches nothing. It deletes Pods, asks no PodDisruptionBudget, and
  spares a device only for a toleration in the allocation result whose effect is `NoExecute`, spelled out.
- The scheduler (its slice tracker) takes no selector for every device until 1.37.0, for none from 1.37.1 on.
- Pods that hold devices by an extended resource only are not evicted until 1.36 (read and run: 1.36.3), and are in 1.37
  (1.37.2); their claim, made by the scheduler, has no tolerations.
- A change of the effect sets timeAdded anew, and tolerationSeconds run from it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec

from changegen import words
from changegen.assess.context import names
from changegen.assess.dra import (
    DeviceId,
    DeviceIndex,
    comes_back,
    owner_text,
    rule_selects,
    tolerates_device_taint,
)
from changegen.assess.simulation import simulation_of
from changegen.i18n import tr, trn
from changegen.model.base import Model
from changegen.model.snapshot import AllocatedDevice, Snapshot, TaintRule
from changegen.model.ticket import Command
from changegen.shell import word
from changegen.versions import Version, try_version

__all__ = [
    "EFFECTS",
    "EvictedPod",
    "Rollout",
    "SelectedDevice",
    "Share",
    "TaintBlast",
    "blast_radius",
    "driver_taints",
    "evicts_extended",
    "existing_rules",
    "lines",
    "missing_selector",
    "retaint",
    "rollout",
    "rule_yaml",
    "rules_of",
    "together",
]

EFFECTS: Final = ("None", "NoSchedule", "NoExecute")
CLAIMS: Final = "resourceclaims.resource.k8s.io"
FIXED_SELECTOR: Final = (1, 37, 1)
"""First release whose scheduler takes a missing selector for none (changelog of 1.37.1)."""


Outcome = Literal["evicted", "evicted-later", "stays", "spared", "not-scheduled", "unknown"]


class SelectedDevice(Model, frozen=True, kw_only=True):
    """A device that the taint is put on."""

    driver: str
    pool: str
    device: str
    node: str = ""
    published: bool = True
    """False: allocated, and in no slice that counts."""
    allocated: bool = False
    claims: tuple[str, ...] = ()
    """`namespace/name` of the claims that hold it."""


class EvictedPod(Model, frozen=True, kw_only=True):
    """A Pod that holds a selected device, and what NoExecute does to it."""

    namespace: str
    name: str
    node: str = ""
    owner: str = ""
    """`Deployment/train`; empty: a bare Pod."""
    comes_back: bool = False
    """Something makes a new Pod."""
    claims: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    extended_resource: bool = False
    """It asked for an extended resource: its claim has no tolerations."""
    outcome: Outcome
    """stays: it tolerates the taint · spared: the taint controller of this release does not look at claims of extended
    resources · unknown: the Pod is named by the claim and was not read."""
    seconds: int | None = None
    """evicted-later: seconds after the rule's timeAdded."""


class Share(Model, frozen=True, kw_only=True):
    """How many of a node's or pool's devices are selected."""

    what: Literal["node", "pool"]
    driver: str
    name: str
    selected: int
    total: int

    @property
    def whole(self) -> bool:
        """Whether nothing is left of it."""
        return self.total > 0 and self.selected == self.total


class TaintBlast(Model, frozen=True, kw_only=True):
    """What a device taint reaches. Counts are of this reading; the cluster goes on."""

    rule: TaintRule
    """Of several rules together the first, without its device."""
    rules: tuple[TaintRule, ...] = ()
    """Several rules that are looked at together: a rule names one device, or all of a pool or driver."""
    source: Literal["rule", "driver", "planned"] = "planned"
    devices: tuple[SelectedDevice, ...] = ()
    pods: tuple[EvictedPod, ...] = ()
    homeless: tuple[str, ...] = ()
    """``namespace/name`` of Pods that would be evicted and made again, and for which no device is left then."""
    unsettled: dict[str, tuple[str, ...]] = {}
    """Others of them of which that cannot be told, with what is not known."""
    groups: tuple[str, ...] = ()
    """``namespace/name`` of PodGroups for which selected devices are reserved: all their Pods are evicted too."""
    shares: tuple[Share, ...] = ()
    scheduling_all: bool | None = False
    """The scheduler takes the missing selector for every device; None: not known of this release."""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()
    """Kinds that were not read: what they would add is not here."""

    @property
    def published(self) -> int:
        """Devices selected that a slice publishes."""
        return sum(1 for device in self.devices if device.published)

    @property
    def allocated(self) -> int:
        """Devices selected that a claim holds."""
        return sum(1 for device in self.devices if device.allocated)

    @property
    def claims_unread(self) -> bool:
        """Whether nothing is known of what is allocated."""
        return CLAIMS in self.unobserved

    @property
    def slices_unread(self) -> bool:
        """Whether more devices may be selected than are here."""
        return "resourceslices.resource.k8s.io" in self.unobserved

    @property
    def evicted(self) -> tuple[EvictedPod, ...]:
        """Pods that NoExecute deletes, at once or later; those that were not read among them."""
        return tuple(pod for pod in self.pods if pod.outcome in {"evicted", "evicted-later", "unknown"})

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces of the Pods that would be evicted."""
        return tuple(sorted({pod.namespace for pod in self.evicted}))


class Rollout(Model, frozen=True, kw_only=True):
    """One step of bringing a taint out."""

    title: str
    commands: tuple[Command, ...]
    go_on: str
    stop: str = ""


def missing_selector(version: str | Version | None) -> bool | None:
    """Whether the scheduler of a release takes a rule without a selector for one of every device.

    None where the release is not known, or is a patch of a minor before 1.37 newer than those that were read.
    """
    known = version if isinstance(version, Version) else try_version(version)
    if known is None or known.patch is None:
        return None
    if (known.major, known.minor, known.patch) >= FIXED_SELECTOR:
        return False
    read = {(1, 34): 4, (1, 35): 4, (1, 36): 3, (1, 37): 0}
    newest = read.get((known.major, known.minor))
    return True if newest is not None and known.patch <= newest else None


def evicts_extended(version: str | Version | None) -> bool | None:
    """Whether the taint controller of a release evicts Pods that hold devices by an extended resource only.

    None where the release is not known, or lies between those that were read (1.36.3: no, 1.37.2: yes).
    """
    known = version if isinstance(version, Version) else try_version(version)
    if known is None or known.patch is None:
        return None
    release = (known.major, known.minor, known.patch)
    if release >= (1, 37, 2):
        return True
    return False if release <= (1, 36, 3) else None


def _versions_of(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    found = {
        component.running_version or component.version
        for component in snapshot.components
        if component.component == name and component.belongs_to == "this cluster"
    }
    known = {version for version in found if try_version(version) is not None}
    if not known and snapshot.cluster.server_version:
        known = {snapshot.cluster.server_version}
    return tuple(sorted(known))


def _stay(result: AllocatedDevice, rule: TaintRule) -> tuple[bool, int | None, bool]:
    """(spared for ever, seconds, a toleration that only counts for scheduling) of one allocated device."""
    seconds: int | None = None
    scheduling_only = False
    for toleration in result.tolerations:
        if not tolerates_device_taint(toleration, rule.key, rule.value, "NoExecute"):
            continue
        if toleration.effect != "NoExecute":
            scheduling_only = True
            continue
        if toleration.seconds is None:
            return True, None, False
        seconds = max(toleration.seconds, 0) if seconds is None else min(seconds, max(toleration.seconds, 0))
    return False, seconds, scheduling_only and seconds is None


def blast_radius(
    snapshot: Snapshot,
    rule: TaintRule,
    *,
    version: str | None = None,
    source: Literal["rule", "driver", "planned"] = "planned",
    index: DeviceIndex | None = None,
) -> TaintBlast:
    """What a rule reaches in a snapshot, and what NoExecute would do whatever its effect is now.

    Args:
        snapshot: The reading.
        rule: A rule of the cluster, or one that is planned.
        version: Release by which scheduler and taint controller are judged; None: those of the snapshot.
        source: Where the taint comes from.
        index: The index of this snapshot where the caller has it already.
    """
    at = index or DeviceIndex(snapshot)
    chosen = [
        key
        for key in dict.fromkeys((*at.devices, *at.holdings))
        if rule_selects(rule, key.driver, key.pool, key.device)
    ]
    return _blast(snapshot, at, rule, chosen, version, source)


def together(
    snapshot: Snapshot,
    rules: Sequence[TaintRule],
    *,
    version: str | None = None,
    index: DeviceIndex | None = None,
) -> TaintBlast:
    """What several planned rules with one taint reach together; of one rule the same as `blast_radius`.

    Alone each may leave a node most of its devices; together they may close it.
    """
    at = index or DeviceIndex(snapshot)
    if len(rules) == 1:
        return blast_radius(snapshot, rules[0], version=version, index=at)
    chosen = [
        key for key in dict.fromkeys((*at.devices, *at.holdings)) if any(rule_selects(r, *key) for r in rules)
    ]
    found = _blast(snapshot, at, msgspec.structs.replace(rules[0], device=""), chosen, version, "planned")
    nothing = [r for r in rules if not any(rule_selects(r, *key) for key in chosen)]
    warnings = found.warnings
    if nothing and chosen and "resourceslices.resource.k8s.io" in snapshot.kinds_read:
        warnings = (
            *warnings,
            tr(
                "No device that is published or allocated is selected by {rules}",
                rules=names("/".join(text or "*" for text in (r.driver, r.pool, r.device)) for r in nothing),
            ),
        )
    return msgspec.structs.replace(found, rules=tuple(rules), warnings=warnings)


def rules_of(rule: TaintRule, devices: Sequence[str]) -> tuple[TaintRule, ...]:
    """A planned rule for each of these devices, numbered where there are several; the rule itself for none."""
    if not devices:
        return (rule,)
    several = len(devices) > 1
    return tuple(
        msgspec.structs.replace(
            rule, name=f"{rule.name}-{n}" if several else rule.name, selector="some", device=device
        )
        for n, device in enumerate(devices, 1)
    )


def _blast(
    snapshot: Snapshot,
    at: DeviceIndex,
    rule: TaintRule,
    chosen: Iterable[DeviceId],
    version: str | None,
    source: Literal["rule", "driver", "planned"],
) -> TaintBlast:
    chosen = sorted(chosen)
    controllers = (version,) if version else _versions_of(snapshot, "kube-controller-manager")
    spares = bool(controllers) and all(evicts_extended(v) is False for v in controllers)
    devices = []
    affected: defaultdict[tuple[str, str], list[tuple[DeviceId, AllocatedDevice, str, bool]]] = defaultdict(
        list
    )
    unread: defaultdict[tuple[str, str], list[tuple[DeviceId, AllocatedDevice, str, bool]]] = defaultdict(
        list
    )
    groups: set[str] = set()
    for key in chosen:
        device = at.devices.get(key)
        holdings = at.holdings.get(key, ())
        node = (device.node or "") if device is not None else ""
        devices.append(
            SelectedDevice(
                driver=key.driver,
                pool=key.pool,
                device=key.device,
                node=node or next((h.claim.node for h in holdings if h.claim.node), ""),
                published=device is not None,
                allocated=bool(holdings),
                claims=tuple(sorted({f"{h.claim.namespace}/{h.claim.name}" for h in holdings})),
            )
        )
        for holding in holdings:
            entry = (key, holding.result, holding.claim.name, holding.claim.extended_resource)
            for pod in holding.pods:
                affected[pod.namespace, pod.name].append(entry)
            for name in holding.unread_pods:
                unread[holding.claim.namespace, name].append(entry)
            groups.update(
                f"{holding.claim.namespace}/{consumer.name}"
                for consumer in holding.claim.reserved_for
                if consumer.resource == "podgroups"
            )
    pods = [
        *(_evicted(at, rule, *identity, entries, spares) for identity, entries in affected.items()),
        *(_unread(*identity, entries) for identity, entries in unread.items()),
    ]
    pods.sort(key=lambda pod: (pod.namespace, pod.name, pod.outcome))
    blast = TaintBlast(
        rule=rule,
        source=source,
        devices=tuple(devices),
        pods=tuple(pods),
        groups=tuple(sorted(groups)),
        shares=_shares(at, chosen),
        scheduling_all=_scheduling_all(snapshot, rule, version),
        unobserved=tuple(
            kind
            for kind in ("resourceslices.resource.k8s.io", CLAIMS, "pods")
            if kind not in snapshot.kinds_read
        ),
    )
    blast = _aftermath(at, blast, chosen)
    scheduling_only = any(
        _stay(result, rule)[2] for entries in affected.values() for _, result, _, _ in entries
    )
    return msgspec.structs.replace(
        blast,
        notes=tuple(_notes(snapshot, blast, version, scheduling_only)),
        warnings=tuple(_warnings(snapshot, blast, version)),
    )


def _aftermath(at: DeviceIndex, blast: TaintBlast, chosen: list[DeviceId]) -> TaintBlast:
    """The same with the Pods for which no device is left once NoExecute has evicted them."""
    leaving = [
        at.pods[pod.namespace, pod.name]
        for pod in blast.pods
        if pod.outcome in {"evicted", "evicted-later"} and pod.node
    ]
    if not leaving:
        return blast
    left, doubts = simulation_of(at).devices_out(blast.rule, chosen, leaving)
    return msgspec.structs.replace(
        blast,
        homeless=tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in left)),
        unsettled={f"{namespace}/{name}": why for (namespace, name), why in sorted(doubts.items())},
    )


def _evicted(
    at: DeviceIndex,
    rule: TaintRule,
    namespace: str,
    name: str,
    entries: list[tuple[DeviceId, AllocatedDevice, str, bool]],
    spares: bool,
) -> EvictedPod:
    pod = at.pods[namespace, name]
    outcome: Outcome = "stays"
    earliest: int | None = None
    asked = [entry for entry in entries if not (spares and entry[3])]
    for _, result, _, _ in asked:
        forever, seconds, _ = _stay(result, rule)
        if forever:
            continue
        earliest = (seconds or 0) if earliest is None else min(earliest, seconds or 0)
    if earliest is not None:
        outcome = "evicted" if earliest == 0 else "evicted-later"
    elif not asked:
        outcome = "spared"
    if not pod.node:
        outcome, earliest = "not-scheduled", None
    return EvictedPod(
        namespace=namespace,
        name=name,
        node=pod.node,
        owner=owner_text(pod.owner),
        comes_back=comes_back(pod.owner),
        claims=tuple(sorted({claim for _, _, claim, _ in entries})),
        devices=tuple(sorted({str(key) for key, _, _, _ in entries})),
        extended_resource=any(extended for _, _, _, extended in entries),
        outcome=outcome,
        seconds=earliest or None,
    )


def _unread(
    namespace: str, name: str, entries: list[tuple[DeviceId, AllocatedDevice, str, bool]]
) -> EvictedPod:
    return EvictedPod(
        namespace=namespace,
        name=name,
        claims=tuple(sorted({claim for _, _, claim, _ in entries})),
        devices=tuple(sorted({str(key) for key, _, _, _ in entries})),
        extended_resource=any(extended for _, _, _, extended in entries),
        outcome="unknown",
    )


def _shares(at: DeviceIndex, chosen: Iterable[DeviceId]) -> tuple[Share, ...]:
    selected_nodes: Counter[tuple[str, str]] = Counter()
    selected_pools: Counter[tuple[str, str]] = Counter()
    for key in chosen:
        device = at.devices.get(key)
        if device is None:
            continue
        selected_pools[key.driver, key.pool] += 1
        if device.node:
            selected_nodes[key.driver, device.node] += 1
    totals = Counter((key.driver, device.node) for key, device in at.devices.items() if device.node)
    rows = [
        Share(what="node", driver=driver, name=node, selected=n, total=totals[driver, node])
        for (driver, node), n in selected_nodes.items()
    ]
    rows.extend(
        Share(what="pool", driver=driver, name=pool, selected=n, total=len(at.pools[driver, pool].devices))
        for (driver, pool), n in selected_pools.items()
    )
    return tuple(sorted(rows, key=lambda share: (share.what, share.driver, share.name)))


def _scheduling_all(snapshot: Snapshot, rule: TaintRule, version: str | None) -> bool | None:
    if rule.selector != "none":
        return False
    answers = [
        missing_selector(v) for v in ((version,) if version else _versions_of(snapshot, "kube-scheduler"))
    ]
    if any(answers):
        return True
    return None if not answers or None in answers else False


def _notes(
    snapshot: Snapshot, blast: TaintBlast, version: str | None, scheduling_only: bool
) -> Iterator[str]:
    rule = blast.rule
    if rule.effect == "None":
        yield tr("Effect None informs only: no Pod is kept away and none is evicted")
    elif rule.effect == "NoSchedule":
        yield tr("Effect NoSchedule keeps new claims away; Pods that hold a device stay")
    elif rule.effect == "NoExecute":
        yield tr("Effect NoExecute keeps new claims away and deletes the Pods that hold a device")
    else:
        yield tr("Effect {effect} is not known; it counts as None", effect=rule.effect)
    if blast.evicted:
        yield tr("PodDisruptionBudgets are not asked: the eviction controller deletes Pods")
    spared = [pod for pod in blast.pods if pod.outcome == "spared"]
    if spared:
        yield trn(
            "{n} Pod holds devices by an extended resource: the taint controller of {versions} does not evict it, that of "
            "1.37 does",
            "{n} Pods hold devices by an extended resource: the taint controller of {versions} does not evict them, that of "
            "1.37 does",
            n=len(spared),
            versions=version or ", ".join(_versions_of(snapshot, "kube-controller-manager")),
        )
    extended = [pod for pod in blast.evicted if pod.extended_resource]
    if extended:
        yield trn(
            "{n} of the Pods asks for an extended resource: the claim that the scheduler makes has no tolerations, "
            "so it cannot stay",
            "{n} of the Pods ask for an extended resource: the claim that the scheduler makes has no tolerations, "
            "so they cannot stay",
            n=len(extended),
        )
    if blast.unsettled:
        yield tr(
            "Whether {pods} get devices again cannot be told: {what}",
            pods=names(blast.unsettled),
            what=", ".join(dict.fromkeys(word for why in blast.unsettled.values() for word in why)),
        )
    if any(pod.outcome == "evicted-later" for pod in blast.pods):
        yield tr(
            "tolerationSeconds run from the taint's timeAdded, and a change of the effect sets that anew"
        )
    if scheduling_only:
        yield tr(
            "A toleration without an effect counts for scheduling only: to stay in spite of NoExecute it must say NoExecute"
        )
    if any(device.allocated and not device.published for device in blast.devices):
        yield tr("Devices that no slice publishes and claims hold are matched by name all the same")


def _warnings(snapshot: Snapshot, blast: TaintBlast, version: str | None) -> Iterator[str]:
    rule = blast.rule
    if rule.selector == "all":
        yield tr("The selector is empty: it takes every device of every driver")
    if rule.selector == "none":
        versions = version or ", ".join(_versions_of(snapshot, "kube-scheduler")) or tr("unknown")
        if blast.scheduling_all:
            yield tr(
                "There is no selector: by the API that is no device, but the scheduler of {versions} takes it for every "
                "device (fixed in 1.37.1); no Pod is evicted, and no new claim gets any device",
                versions=versions,
            )
        elif blast.scheduling_all is None:
            yield tr(
                "There is no selector: no device by the API; schedulers before 1.37.1 took it for every device, and what "
                "{versions} does is not known",
                versions=versions,
            )
        else:
            yield tr("There is no selector: it takes no device")
    for text in rule.other_selectors:
        yield tr(
            "{field} is no field of a selector since 1.35: it is dropped, and what is left selects",
            field=text.partition("=")[0] if "=" in text else text.partition(":")[0],
        )
    if (
        rule.selector == "some"
        and not blast.devices
        and "resourceslices.resource.k8s.io" in snapshot.kinds_read
    ):
        yield tr(
            "The rule selects no device that is published or allocated: look at the names of driver, pool and device"
        )
    whole: defaultdict[str, list[str]] = defaultdict(list)
    for share in blast.shares:
        if share.what == "node" and share.whole:
            whole[share.driver].append(share.name)
    for driver, nodes in sorted(whole.items()):
        yield tr(
            "Every device of {driver} on {nodes} is selected: nothing of it is left there",
            driver=driver,
            nodes=names(nodes),
        )
    if blast.homeless:
        yield trn(
            "No device is left for {pods} once it is evicted: it stays Pending until the taint goes",
            "No device is left for {pods} once they are evicted: they stay Pending until the taint goes",
            n=len(blast.homeless),
            pods=names(blast.homeless),
        )
    if blast.groups:
        yield tr(
            "Selected devices are reserved for PodGroups ({groups}): all their Pods are evicted too, and are not in this table",
            groups=names(blast.groups),
        )
    bare = [pod for pod in blast.evicted if pod.outcome != "unknown" and not pod.comes_back]
    if bare:
        yield tr(
            "Nothing makes these Pods again: {pods}",
            pods=names(f"{pod.namespace}/{pod.name}" for pod in bare),
        )


def retaint(
    snapshot: Snapshot, blast: TaintBlast, *, version: str, index: DeviceIndex | None = None
) -> TaintBlast:
    """The same taint on the same devices, as scheduler and taint controller of another release take it."""
    at = index or DeviceIndex(snapshot)
    chosen = [DeviceId(device.driver, device.pool, device.device) for device in blast.devices]
    return _blast(snapshot, at, blast.rule, chosen, version, blast.source)


def existing_rules(snapshot: Snapshot, index: DeviceIndex | None = None) -> tuple[TaintBlast, ...]:
    """The blast radius of every rule of the cluster."""
    at = index or DeviceIndex(snapshot)
    return tuple(blast_radius(snapshot, rule, source="rule", index=at) for rule in snapshot.taint_rules)


def driver_taints(snapshot: Snapshot, index: DeviceIndex | None = None) -> tuple[TaintBlast, ...]:
    """The blast radius of the taints that drivers set in their slices, one for each driver, key, value and effect."""
    at = index or DeviceIndex(snapshot)
    groups: defaultdict[tuple[str, str, str, str], list[DeviceId]] = defaultdict(list)
    added: dict[tuple[str, str, str, str], str] = {}
    for key, device in at.devices.items():
        for taint in device.taints:
            group = (key.driver, taint.key, taint.value, taint.effect)
            groups[group].append(key)
            added[group] = max(added.get(group, ""), taint.time_added)
    found = []
    for group, keys in sorted(groups.items()):
        driver, name, value, effect = group
        rule = TaintRule(
            name="",
            selector="some",
            driver=driver,
            key=name,
            value=value,
            effect=effect,
            time_added=added[group],
        )
        found.append(_blast(snapshot, at, rule, keys, None, "driver"))
    return tuple(found)


# ------------------------------------------------------------------------------------------------------------ output

_BARE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-/_")
_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", "none", "~"})


def _scalar(text: str) -> str:
    """A string as YAML: bare where no reader can take it for anything else, else in double quotes."""
    plain = (
        bool(text)
        and text[0].isalpha()
        and set(text) <= _BARE
        and text.lower() not in _WORDS
        and not text.endswith(":")
    )
    return text if plain else msgspec.json.encode(text).decode()


def _rule_version(snapshot: Snapshot | None) -> str:
    """The newest version that serves rules: one whose resources were read lists them, of the others it is supposed."""
    served = {api.group_version: api.resources for api in snapshot.apis} if snapshot is not None else {}
    for version in ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"):
        if version in served:
            resources = served[version]
            if resources is None or any(resource.kind == "DeviceTaintRule" for resource in resources):
                return version
    return "resource.k8s.io/v1"


def rule_yaml(rule: TaintRule, snapshot: Snapshot | None = None, effect: str | None = None) -> str:
    """The rule as YAML to apply, in the newest version that the cluster serves (v1 where discovery does not tell)."""
    out = [
        f"apiVersion: {_rule_version(snapshot)}",
        "kind: DeviceTaintRule",
        "metadata:",
        f"  name: {_scalar(rule.name or 'device-maintenance')}",
        "spec:",
    ]
    if rule.selector != "none":
        fields = [
            f"    {name}: {_scalar(value)}"
            for name, value in (("driver", rule.driver), ("pool", rule.pool), ("device", rule.device))
            if value
        ]
        out.extend(["  deviceSelector:", *fields] if fields else ["  deviceSelector: {}"])
    out.extend(["  taint:", f"    key: {_scalar(rule.key)}"])
    if rule.value:
        out.append(f"    value: {_scalar(rule.value)}")
    shown = rule.effect if effect is None else effect
    out.append(f'    effect: "{shown}"' if shown == "None" else f"    effect: {_scalar(shown)}")
    return "\n".join(out) + "\n"


def rollout(blast: TaintBlast, file: str = "") -> tuple[Rollout, ...]:
    """Steps from looking on to taking the rule away again; nothing of it is run by this tool.

    Args:
        blast: What the rule reaches, or several rules together.
        file: Name of the file with the rules, without `.yaml`; empty: that of the rule.
    """
    rule = blast.rule
    name = file or rule.name or "device-maintenance"
    path = word(f"{name}.yaml")
    if len(blast.rules) > 1:
        # kubectl patches and deletes several objects by their file, not by their names.
        which = f"-f {path}"
        condition = (
            f"kubectl get devicetaintrules {' '.join(word(r.name) for r in blast.rules)} -o "
            "jsonpath='{range .items[*]}{.metadata.name}{range .status.conditions[*]} {.type} {.status} {.reason} "
            '{.message}{end}{"\\n"}{end}\''
        )
    else:
        which = f"devicetaintrule {word(rule.name or 'device-maintenance')}"
        condition = (
            f"kubectl get {which} -o "
            "jsonpath='{range .status.conditions[*]}{.type} {.status} {.reason} {.message}{\"\\n\"}{end}'"
        )
    allocations = (
        "kubectl get resourceclaims -A -o "
        "jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{range .status.allocation.devices.results[*]} "
        '{.driver}/{.pool}/{.device}{end}{"\\n"}{end}\''
    )
    concerned = [
        pod for pod in blast.pods if pod.outcome in {"evicted", "evicted-later", "spared", "unknown"}
    ]
    owners = sorted({f"{pod.namespace}/{pod.owner or pod.name}" for pod in concerned})

    def read(text: str) -> Command:
        return Command(text=text, runs="read")

    def write(text: str) -> Command:
        return Command(text=text, runs="write")

    def effect(value: str) -> Command:
        patch = msgspec.json.encode({"spec": {"taint": {"effect": value}}}).decode()
        return write(f"kubectl patch {which} --type merge -p {word(patch)}")

    # Whatever effect the file has: the first look must not evict anybody.
    apply = (
        f"kubectl apply -f {path}"
        if rule.effect == "None"
        else f"sed 's/^    effect: .*/    effect: \"None\"/' {path} | kubectl apply -f -"
    )
    return (
        Rollout(
            title=tr("Apply the rule with effect None and read its condition"),
            commands=(write(apply), read(condition)),
            go_on=tr(
                "Condition EvictionInProgress is False with reason NoEffect; its numbers are new: what is allocated was not read"
            )
            if blast.claims_unread
            else tr(
                "Condition EvictionInProgress is False with reason NoEffect; its numbers are new: ResourceSlices were not read whole"
            )
            if blast.slices_unread
            else tr(
                "Condition EvictionInProgress of each rule is False with reason NoEffect; together they say {devices} "
                "selected, {allocated} allocated, {pods}, where a Pod that holds several devices counts with each",
                devices=words.devices(blast.published),
                allocated=blast.allocated,
                pods=words.pods(len(blast.evicted)),
            )
            if len(blast.rules) > 1
            else tr(
                "Condition EvictionInProgress is False with reason NoEffect and says {devices} selected, {allocated} "
                "allocated, {pods}",
                devices=words.devices(blast.published),
                allocated=blast.allocated,
                pods=words.pods(len(blast.evicted)),
            ),
            stop=tr(
                "Other numbers: they are written once for each change of the rule, so change or make it again, and look "
                "at the selector"
            ),
        ),
        Rollout(
            title=tr("Set effect NoSchedule and see that a new Pod gets another device"),
            commands=(effect("NoSchedule"), read(condition), read(allocations)),
            go_on=tr("Reason OtherEffect; the claim of a new Pod has none of the selected devices"),
            stop=tr("A new Pod stays Pending for lack of devices, or gets a selected one"),
        ),
        Rollout(
            title=tr("Set effect NoExecute, only after the owners agree")
            if owners
            else tr("Set effect NoExecute"),
            commands=(effect("NoExecute"), read(condition)),
            go_on=tr(
                "Agreed by {owners}; reason PodsPendingEviction, then Completed or NotStarted; no claim holds a selected device",
                owners=", ".join(owners),
            )
            if owners
            else tr(
                "Reason PodsPendingEviction, then Completed or NotStarted; no claim holds a selected device"
            ),
            stop=tr("A Pod that is not in this table is deleted: set effect None again"),
        ),
        Rollout(
            title=tr("Take the rule away after the maintenance"),
            commands=(write(f"kubectl delete {which}"), read(allocations)),
            go_on=tr("New claims get these devices again"),
        ),
    )


def lines(blast: TaintBlast, most: int = 200) -> Iterator[str]:
    """The table as lines of text for a terminal; names from the cluster are as they were read, escape them.

    Args:
        blast: What is shown.
        most: Devices and Pods that are listed; the rest is counted.
    """
    rule = blast.rule
    value = f"={rule.value}" if rule.value else ""
    yield f"{rule.key}{value}:{rule.effect}"
    if blast.claims_unread:
        yield tr(
            "{published} selected; ResourceClaims were not read: what is allocated, and whom it would hit, is not known",
            published=trn("{n} published device", "{n} published devices", n=blast.published),
        )
    else:
        yield tr(
            "{published} selected, {allocated} allocated, {pods} would be evicted in {namespaces}",
            published=trn("{n} published device", "{n} published devices", n=blast.published),
            allocated=blast.allocated,
            pods=words.pods(len(blast.evicted)),
            namespaces=trn("{n} namespace", "{n} namespaces", n=len(blast.namespaces)),
        )
    for warning in blast.warnings:
        yield f"! {warning}"
    for share in blast.shares:
        yield f"{share.what} {share.name}  {share.driver}  {share.selected}/{share.total}"
    for device in blast.devices[:most]:
        free = tr("not known") if blast.claims_unread else tr("free")
        state = ", ".join(device.claims) if device.allocated else free
        yield f"device {device.driver}/{device.pool}/{device.device}  {device.node or '-'}  {state}"
    if len(blast.devices) > most:
        yield trn("{n} more device", "{n} more devices", n=len(blast.devices) - most)
    for pod in blast.pods[:most]:
        outcome = {
            "evicted": tr("evicted") if rule.effect == "NoExecute" else tr("evicted with NoExecute"),
            "evicted-later": tr("evicted after {seconds} s", seconds=pod.seconds or 0)
            if rule.effect == "NoExecute"
            else tr("evicted with NoExecute after {seconds} s", seconds=pod.seconds or 0),
            "stays": tr("stays: its claim tolerates the taint"),
            "spared": tr("stays: this taint controller does not look at extended resources"),
            "not-scheduled": tr("not scheduled yet"),
            "unknown": tr("evicted; the Pod itself was not read"),
        }[pod.outcome]
        again = tr("comes back") if pod.comes_back else tr("nothing makes it again")
        if f"{pod.namespace}/{pod.name}" in blast.homeless:
            again = tr("comes back, and finds no device")
        if pod.outcome == "unknown":
            again = "?"
        yield f"pod {pod.namespace}/{pod.name}  {pod.node or '-'}  {pod.owner or '-'}  {outcome}  {again}"
    if len(blast.pods) > most:
        yield trn("{n} more Pod", "{n} more Pods", n=len(blast.pods) - most)
    for note in blast.notes:
        yield f"- {note}"
    for kind in blast.unobserved:
        yield tr("not read: {kind}", kind=kind)
