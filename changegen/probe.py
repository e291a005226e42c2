"""How to prove that a container sees and uses its devices: commands for people to run, with what they must show.

No API shows what happens inside a container, and phase Running proves nothing. For every Pod that uses devices this
gives the exact ``kubectl exec`` line, what it must show as far as the reading knows it (number, UUIDs, interface,
addresses), and which check of a ticket it fills. Nothing is run. Pure.

What the software of a driver offers inside a container is the vendor's: ``nvidia-smi`` comes with NVIDIA's runtime, the
example driver of Kubernetes sets GPU_DEVICE variables; where nothing is known, device files and names of variables are
listed, never their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from changegen import words
from changegen.i18n import tr, trn
from changegen.model.base import Model
from changegen.model.snapshot import AllocatedDevice, Claim, Device, DeviceStatus, PodUse, Snapshot
from changegen.model.ticket import Ticket
from changegen.quantity import count
from changegen.shell import quoted

__all__ = ["Probe", "evidence_file", "probes"]

_GENERIC: Final = "sh -c 'ls -l /dev; env | cut -d= -f1 | sort'"
_BY_NAME: Final[tuple[tuple[str, str], ...]] = (
    ("nvidia.com", "nvidia-smi -L"),
    ("gpu.example.com", "sh -c 'env | grep ^GPU_DEVICE'"),
    ("amd.com", "ls -l /dev/kfd /dev/dri"),
    ("intel.com", "ls -l /dev/dri"),
    ("google.com", "sh -c 'ls -l /dev/accel* /dev/vfio'"),
)
"""Part of a driver's or resource's name -> what shows its devices in a container; the first that fits."""


class Probe(Model, frozen=True, kw_only=True):
    """One command to run, and what it must show."""

    namespace: str
    pod: str
    container: str
    node: str = ""
    workload: str = ""
    """``Deployment/train``; empty: a bare Pod."""
    subject: str
    """Driver or extended resource."""
    devices: tuple[str, ...] = ()
    """``pool/device`` of the allocation, as far as it is known."""
    command: str = ""
    """Empty: nothing can be run, ``why`` tells the reason."""
    expect: str = ""
    why: str = ""
    check: str = ""
    """Id of the ticket's check that it fills; empty without a ticket."""


def probes(snapshot: Snapshot, ticket: Ticket | None = None, pods: Iterable[str] = ()) -> tuple[Probe, ...]:
    """Return the probes of the Pods that use devices, sorted by namespace and name.

    Args:
        snapshot: The reading.
        ticket: Its runtime checks give the ids.
        pods: ``namespace/name`` of the Pods that are wanted; none: all that use devices.
    """
    wanted = set(pods)
    claims = {(claim.namespace, claim.name): claim for claim in snapshot.claims}
    published = {(p.driver, p.name, d.name): d for p in snapshot.pools for d in p.devices}
    checks = _checks(ticket)
    out: list[Probe] = []
    for pod in snapshot.pods:
        name = f"{pod.namespace}/{pod.name}"
        if not pod.uses_devices or (wanted and name not in wanted):
            continue
        workload = f"{pod.owner.kind}/{pod.owner.name}" if pod.owner is not None else ""
        check = checks.get(f"{pod.namespace}/{pod.owner.name if pod.owner is not None else pod.name}", "")
        out.extend(
            msgspec.structs.replace(probe, workload=workload, check=check)
            for probe in _of_pod(pod, claims, published)
        )
    return tuple(sorted(out, key=lambda p: (p.namespace, p.pod, p.container, p.subject, p.command)))


def _checks(ticket: Ticket | None) -> dict[str, str]:
    """Workload -> id of its runtime check."""
    found: dict[str, str] = {}
    for check in ticket.checks if ticket is not None else ():
        if check.query is not None and check.query.fact == "runtime.evidence":
            found[str(check.query.args.get("title", ""))] = check.id
    return found


def _of_pod(
    pod: PodUse, claims: dict[tuple[str, str], Claim], published: dict[tuple[str, str, str], Device]
) -> Iterable[Probe]:
    running = pod.phase == "Running"
    why = "" if running else tr("the Pod is {phase}: nothing runs in it", phase=pod.phase or tr("unknown"))
    claimed: set[tuple[str, str]] = set()
    for use in pod.claims:
        claim = claims.get((pod.namespace, use.claim))
        containers = use.containers or ("",)
        if claim is None:
            for container in containers:
                yield _empty(pod, container, use.pod_claim, why or tr("its claim was not read"))
            continue
        statuses = {(s.driver, s.pool, s.device): s for s in claim.device_status}
        by_driver: dict[str, list[AllocatedDevice]] = {}
        for device in claim.devices:
            by_driver.setdefault(device.driver, []).append(device)
        for container in containers:
            if not by_driver:
                yield _empty(pod, container, use.pod_claim, why or tr("its claim is not allocated"))
            for driver, devices in by_driver.items():
                claimed.update((m.container, m.resource) for m in pod.extended_mappings)
                yield from _devices(pod, container, driver, devices, statuses, published, why)
    for ask in pod.asks:
        if (ask.container, ask.resource) in claimed:
            continue
        command = _command(pod, ask.container, _inside(ask.resource)) if running else ""
        yield Probe(
            namespace=pod.namespace,
            pod=pod.name,
            container=ask.container,
            node=pod.node,
            subject=ask.resource,
            command=command,
            expect=tr(
                "{devices} of {resource}", devices=words.devices(count(ask.quantity)), resource=ask.resource
            )
            if running
            else "",
            why=why,
        )


def _empty(pod: PodUse, container: str, subject: str, why: str) -> Probe:
    return Probe(
        namespace=pod.namespace, pod=pod.name, container=container, node=pod.node, subject=subject, why=why
    )


def _devices(
    pod: PodUse,
    container: str,
    driver: str,
    devices: list[AllocatedDevice],
    statuses: dict[tuple[str, str, str], DeviceStatus],
    published: dict[tuple[str, str, str], Device],
    why: str,
) -> Iterable[Probe]:
    names = tuple(f"{d.pool}/{d.device}" for d in devices)

    def probe(inside: str, expect: str) -> Probe:
        return Probe(
            namespace=pod.namespace,
            pod=pod.name,
            container=container,
            node=pod.node,
            subject=driver,
            devices=names,
            command="" if why else _command(pod, container, inside),
            expect="" if why else expect,
            why=why,
        )

    interfaces = [
        s
        for d in devices
        if (s := statuses.get((d.driver, d.pool, d.device))) is not None and s.interface_name
    ]
    for status in interfaces:
        name = quoted(status.interface_name)
        if status.hardware_address:
            yield probe(f"cat /sys/class/net/{name}/address", status.hardware_address)
        addresses = ", ".join(status.ips) or tr("the interface {name}", name=status.interface_name)
        yield probe(f"ip -o addr show dev {name}", addresses)
    if interfaces:
        return
    if any("ifName" in key or "/rdma" in key for key in _attributes(devices, published)):
        yield probe(
            "ls /sys/class/net",
            trn(
                "{n} interface beside lo and eth0; the claim's device status names none",
                "{n} interfaces beside lo and eth0; the claim's device status names none",
                n=len(devices),
            ),
        )
        return
    uuids = [str(value) for key, value in _attributes(devices, published).items() if key.endswith("#uuid")]
    expect = tr("{devices}: {names}", devices=words.devices(len(devices)), names=", ".join(names))
    if uuids:
        expect += "; " + tr("UUIDs {uuids}", uuids=", ".join(uuids))
    yield probe(_inside(driver), expect)


def _attributes(
    devices: list[AllocatedDevice], published: dict[tuple[str, str, str], Device]
) -> dict[str, object]:
    """Return attributes of the allocated devices, each key with the device's name and its own last part."""
    found: dict[str, object] = {}
    for allocated in devices:
        device = published.get((allocated.driver, allocated.pool, allocated.device))
        for key, attribute in device.attributes.items() if device is not None else ():
            last = key.rpartition("/")[2]
            found[f"{allocated.pool}/{allocated.device}/{last}#{last.lower()}"] = attribute.value
    return found


def _inside(name: str) -> str:
    return next((inside for part, inside in _BY_NAME if part in name), _GENERIC)


def _command(pod: PodUse, container: str, inside: str) -> str:
    where = f" -c {quoted(container)}" if container else ""
    return f"kubectl -n {quoted(pod.namespace)} exec {quoted(pod.name)}{where} -- {inside}"


def evidence_file(found: Iterable[Probe]) -> str:
    """Return a file for ``verify --runtime-evidence`` to fill, with the commands as comments."""
    lines = ["schema: changegen.evidence/v1", "by: ''   # " + tr("who looked"), "checks:"]
    by_check: dict[str, list[Probe]] = {}
    for probe in found:
        by_check.setdefault(probe.check, []).append(probe)
    for check, group in sorted(by_check.items(), key=lambda item: (item[0] == "", item[0])):
        for probe in group:
            what = probe.command or f"{probe.namespace}/{probe.pod}: {probe.why}"
            lines.append(f"# {_comment(what)}")
            if probe.expect:
                lines.append(f"#   {_comment(tr('must show {text}', text=probe.expect))}")
        if check:
            lines.append(f"- {{check: {check}, value: '', note: ''}}")
        else:
            lines.append("# " + tr("no check of the ticket asks for these"))
    if not any(check for check in by_check):
        lines[2] = "checks: []"
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return " ".join(text.split())
