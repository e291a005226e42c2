"""Whether a changed thing can go back: one function a thing, each from the snapshot, so that two clusters can differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Literal

import msgspec

from changegen.assess.context import VersionWish
from changegen.i18n import tr
from changegen.model.ticket import Verdict
from changegen.plan.scene import HopPlan, Member, Scene
from changegen.plan.steps.drift import WATCHED
from changegen.versions import minor_key, minor_of

__all__ = [
    "Judgement",
    "driver_verdict",
    "etcd_verdict",
    "extended_verdict",
    "min_compat_verdict",
    "rules_api",
    "rules_verdict",
]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with its reason."""

    verdict: Verdict
    until: str = ""
    why: str = ""
    lost: str = ""


def etcd_verdict(members: Sequence[Member], target: str, today: str = "") -> Judgement:
    """Whether etcd can go back, by its members' versions and the version that the change brings.

    ``today`` is the etcd that belongs to the Kubernetes of today, where that is known: members that run the target's
    minor already were moved before, or the minor does not change at all.

    The cluster's version and storage rise only when the lowest member runs the new minor; from then on the older etcd
    refuses the data unless a downgrade is enabled first. (etcd server, version/monitor.go; measured.)
    """
    wanted = minor_of(target)
    known = [minor_of(member.version) for member in members]
    if wanted is None or not members:
        return Judgement(verdict="reversible", why=tr("etcd's minor does not change."))
    if all(minor == wanted for minor in known):
        before = minor_of(today)
        if before is None or minor_key(before) >= minor_key(wanted):
            return Judgement(verdict="reversible", why=tr("etcd's minor does not change."))
        return Judgement(
            verdict="one-way",
            why=tr(
                "Every member already runs {minor}: the older etcd refuses the data, and only an etcd downgrade leads back.",
                minor=wanted,
            ),
        )
    behind = [member for member, minor in zip(members, known, strict=True) if minor != wanted]
    older = minor_of(behind[0].version) or ""
    if older and minor_key(older) > minor_key(wanted):
        return Judgement(
            verdict="one-way",
            why=tr(
                "etcd would go from {older} to {wanted}: that is a downgrade itself.",
                older=older,
                wanted=wanted,
            ),
        )
    refused = tr(
        'etcd {older} then refuses the data (version "{target}" is not supported) unless etcdctl downgrade enable {older} and a rolling downgrade come first',
        older=older,
        target=target.removeprefix("v"),
    )
    if len(members) == 1:
        return Judgement(
            verdict="reversible-until",
            until=tr("its only member runs {minor}, at once when the change starts", minor=wanted),
            why=tr("There is one member: it is the last one too.") + " " + refused + ".",
        )
    if len(behind) == 1:
        return Judgement(
            verdict="reversible-until",
            until=tr("the last member, on {node}, runs {minor}", node=behind[0].node, minor=wanted),
            why=tr("All others run {minor} already.", minor=wanted) + " " + refused + ".",
        )
    return Judgement(
        verdict="reversible-until",
        until=tr("the last member, on {node}, runs {minor}", node=behind[-1].node, minor=wanted),
        why=tr("A member can go back alone until then; {refused}.", refused=refused),
    )


def rules_api(minor: str) -> tuple[str, str]:
    """(gate, group version) that DeviceTaintRules need in a minor before 1.37; the group version is not served by default.

    Up to 1.34 the gate of all device taints decides over rules too. (pkg/scheduler/scheduler.go of each release.)
    """
    own = minor_key(minor) >= (1, 35)
    version = WATCHED.get(minor, "v1alpha3")
    return ("DRADeviceTaintRules" if own else "DRADeviceTaints"), f"resource.k8s.io/{version}"


def rules_verdict(scene: Scene, hop: HopPlan) -> Judgement | None:
    """What becomes of DeviceTaintRules in the older minor: they stay stored; whether they work is its gate and API.

    The older minor decodes what the target stores: each stores the version of the minor before it (the storage
    versions in the Kubernetes data).
    """
    rules = scene.snapshot.taint_rules
    if not rules:
        return None
    older = minor_of(hop.today) or ""
    names = ", ".join(rule.name for rule in rules)
    if older and minor_key(older) >= (1, 37):
        return Judgement(
            verdict="reversible", why=tr("{older} serves and obeys them as the target does.", older=older)
        )
    gate, api = rules_api(older or "1.36")
    gates = scene.context.gate_states(gate, ("kube-apiserver", "kube-scheduler", "kube-controller-manager"))
    gate_on = bool(gates) and all(state.value is True for state in gates)
    runtime = [entry for process in scene.snapshot.processes for entry in process.runtime_config or ()]
    configured = [entry for item in scene.context.of("kube-apiserver") for entry in item.runtime_config or ()]
    wanted = (f"{api}=true", "api/alpha=true" if "alpha" in api else "api/beta=true", "api/all=true")
    served_configured = any(word in entry for entry in configured for word in wanted)
    served_flagz = any(word in entry for entry in runtime for word in wanted)
    if gate_on and served_configured:
        return Judgement(
            verdict="reversible",
            why=tr(
                "{older} knows them as {api}; its gate and its API are on in the saved manifests.",
                older=older or tr("The version of before"),
                api=api,
            ),
        )
    missing = []
    if not gate_on:
        missing.append(tr("gate {gate} is not on everywhere", gate=gate))
    if not served_configured:
        missing.append(
            tr("runtime-config {api}=true is in /flagz only, in no manifest", api=api)
            if served_flagz
            else tr("runtime-config {api}=true is not set", api=api)
        )
    return Judgement(
        verdict="reversible",
        why=tr("The objects stay in etcd ({names}).", names=names),
        lost=tr(
            "In {older} they are without effect unless its gate {gate} and {api} are on: {missing}.",
            older=older or tr("the version of before"),
            gate=gate,
            api=api,
            missing="; ".join(missing),
        ),
    )


def extended_verdict(scene: Scene, hop: HopPlan) -> Judgement | None:
    """Whether Pods that ask for an extended resource of a DeviceClass find devices again in the older minor.

    The scheduler makes their claims with the gate DRAExtendedResource alone; Pods that run keep what they have. (Run on
    1.36.3: with the gate off a new Pod stays Pending.)
    """
    resources = sorted({item.extended_resource_name for item in scene.snapshot.device_classes} - {""})
    if not resources:
        return None
    older, shown = minor_of(hop.today) or "", ", ".join(resources)
    states = scene.context.gate_states(
        "DRAExtendedResource", ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
    )
    if states and all(state.value is True for state in states):
        return Judgement(
            verdict="reversible",
            why=tr(
                "{older} makes claims for {resources} as it does today.",
                older=older or tr("The version of before"),
                resources=shown,
            ),
        )
    return Judgement(
        verdict="reversible",
        why=tr("Pods that run keep their devices ({resources}).", resources=shown),
        lost=tr(
            "In {older} the gate DRAExtendedResource is not known to be on everywhere: Pods that are made after the way back "
            "get {resources} from device plugins only, and wait where there is none.",
            older=older or tr("the version of before"),
            resources=shown,
        ),
    )


def min_compat_verdict(scene: Scene, hop: HopPlan) -> Judgement | None:
    """Raised to the binary's own minor, kube-apiserver may write what the minor before cannot read; None where it is not.

    The flag is documented so, and defaults to the minor before. (component-base/compatibility/registry.go.)
    """
    configured = set()
    for item in scene.snapshot.config_maps:
        for fact in item.component_flags.get("kube-apiserver", ()):
            if fact.name == "min-compatibility-version" and fact.values:
                configured.add(minor_of(fact.values[-1].rpartition("=")[2]))
    if scene.kubeadm is None:
        for component in scene.context.of("kube-apiserver"):
            if component.min_compatibility_version:
                configured.add(minor_of(component.min_compatibility_version.rpartition("=")[2]))
    if hop.minor in configured:
        return Judgement(
            verdict="one-way",
            why=tr(
                "--min-compatibility-version is {minor}, the target's own minor: it may write what the minor before cannot read.",
                minor=hop.minor,
            ),
        )
    return None


class _DriverRule(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the data: a driver's step that cannot be undone. Ranges are wishes joined by spaces."""

    driver: str
    from_: str = msgspec.field(name="from")
    to: str
    verdict: Literal["one-way"]
    why: str
    source: str


@lru_cache(maxsize=1)
def _driver_rules() -> tuple[_DriverRule, ...]:
    text = (files("changegen") / "data" / "driver-rollback.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[_DriverRule, ...])


def _in_range(version: str, wishes: str) -> bool:
    return all(VersionWish.parse(wish).satisfied(version) is True for wish in wishes.split())


def driver_verdict(driver: str, today: str, target: str) -> Judgement:
    """Whether a DRA driver's step can be undone, by the rows of data/driver-rollback.json, each with its source.

    Args:
        driver: Name of the driver, ``gpu.nvidia.com``.
        today: Version of its plugin that runs.
        target: The version wished, with or without an operator; what no row speaks of is thought reversible.
    """
    version = target.lstrip(">=<~^ ")
    for rule in _driver_rules():
        if rule.driver == driver and _in_range(today, rule.from_) and _in_range(version, rule.to):
            return Judgement(
                verdict="one-way", why=tr("{why} (source: {source})", why=tr(rule.why), source=rule.source)
            )
    return Judgement(
        verdict="reversible",
        why=tr(
            "Nothing in the data of this tool speaks against it; the driver's own release notes were not read."
        ),
    )
