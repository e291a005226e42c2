"""Small clusters with devices for the tests of the assessment."""

from __future__ import annotations

from typing import Any

from changegen.model.snapshot import (
    AllocatedDevice,
    Attribute,
    Claim,
    ClaimUse,
    Consumer,
    Device,
    DeviceClass,
    DeviceRequest,
    DeviceTaint,
    Driver,
    Node,
    PodUse,
    Pool,
    ResourceAsk,
    Slice,
    Snapshot,
    TaintRule,
    Toleration,
    WorkloadRef,
)
from tests.assess.build import READ, cluster, node

DRIVER = "gpu.example.com"
RESOURCE = "example.com/gpu"
ALL_READ = (
    *READ,
    "daemonsets.apps",
    "deviceclasses.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "poddisruptionbudgets.policy",
    "events",
)


def pool(name: str, devices: int = 2, driver: str = DRIVER, on: str | None = None, **more: Any) -> Pool:
    """A pool of a node of the same name; further fields of its devices in `each`."""
    each = more.pop("each", {})
    place = name if on is None else on
    attributes = {f"{driver}/type": Attribute(type="string", value="gpu"), **more.pop("attributes", {})}
    fields: dict[str, Any] = {
        "driver": driver,
        "name": name,
        "generation": 1,
        "node": place or None,
        "expected_slices": 1,
        "slices": (Slice(name=f"{name}-{driver}", generation=1, device_count=devices, node=place or None),),
        "devices": tuple(
            Device(name=f"gpu-{n}", node=place or None, **{"attributes": attributes, **each})
            for n in range(devices)
        ),
    }
    return Pool(**{**fields, **more})


def gpu_class(name: str = DRIVER, resource: str = RESOURCE, driver: str = DRIVER, **more: Any) -> DeviceClass:
    selectors = more.pop("selectors", (f'device.driver == "{driver}"',))
    return DeviceClass(name=name, extended_resource_name=resource, selectors=selectors, **more)


def claim(
    name: str,
    *devices: tuple[str, str],
    pods: tuple[str, ...] = (),
    driver: str = DRIVER,
    tolerations: tuple[Toleration, ...] = (),
    **more: Any,
) -> Claim:
    """An allocated claim; devices are (pool, device)."""
    fields: dict[str, Any] = {
        "namespace": "ml",
        "name": name,
        "allocated": bool(devices),
        "requests": (
            DeviceRequest(name="r", device_class=driver, count=max(len(devices), 1), tolerations=tolerations),
        ),
        "devices": tuple(
            AllocatedDevice(request="r", driver=driver, pool=p, device=d, tolerations=tolerations)
            for p, d in devices
        ),
        "reserved_for": tuple(Consumer(resource="pods", name=pod, uid=f"uid-{pod}") for pod in pods),
        "api_version": "resource.k8s.io/v1",
    }
    return Claim(**{**fields, **more})


def user(
    name: str, on: str = "n1", owner: str | None = "Deployment/train", wants: int = 0, **more: Any
) -> PodUse:
    """A Pod with devices: `wants` of the extended resource, or what `claims` says."""
    held = more.pop("claim", "")
    kind, _, of = (owner or "").partition("/")
    fields: dict[str, Any] = {
        "namespace": "ml",
        "name": name,
        "uid": f"uid-{name}",
        "node": on,
        "phase": "Running" if on else "Pending",
        "owner": WorkloadRef(kind=kind, namespace="ml", name=of) if owner else None,
        "uses_devices": True,
        "asks": (ResourceAsk(container="c", resource=RESOURCE, quantity=str(wants)),) if wants else (),
        "claims": (ClaimUse(pod_claim="<extended-resources>" if wants else "gpu", claim=held),)
        if held
        else (),
        "extended_claim": held if wants else "",
    }
    return PodUse(**{**fields, **more})


def holding(name: str, pool_name: str, device: str, on: str, **more: Any) -> tuple[PodUse, Claim]:
    """A Pod that got one device by the extended resource, and its claim."""
    made = f"{name}-extended-resources"
    pod = user(name, on, wants=1, claim=made, **more)
    return pod, claim(made, (pool_name, device), pods=(name,), extended_resource=True)


def gpus(*parts: Any, **more: Any) -> Snapshot:
    """A cluster of pools, Pods, claims, nodes, classes, rules and drivers, sorted into their fields."""
    fields: dict[str, list[Any]] = {}
    names: dict[type[Any], str] = {
        Pool: "pools",
        PodUse: "pods",
        Claim: "claims",
        Node: "nodes",
        DeviceClass: "device_classes",
        TaintRule: "taint_rules",
        Driver: "drivers",
    }
    for part in parts:
        for item in part if isinstance(part, tuple) else (part,):
            fields.setdefault(names[type(item)], []).append(item)
    if "nodes" not in fields:
        found = sorted({p.node for p in fields.get("pools", []) if p.node})
        fields["nodes"] = [node(name) for name in found]
    fields.setdefault("device_classes", [gpu_class()])
    components = more.pop("components", ())
    return cluster(
        *components, **{"kinds_read": ALL_READ, **{k: tuple(v) for k, v in fields.items()}, **more}
    )


def rule(
    driver: str = "", pool: str = "", device: str = "", effect: str = "NoExecute", **more: Any
) -> TaintRule:
    some = bool(driver or pool or device)
    fields: dict[str, Any] = {
        "name": "maint",
        "selector": "some" if some else "all",
        "driver": driver,
        "pool": pool,
        "device": device,
        "key": "example.com/maint",
        "effect": effect,
    }
    return TaintRule(**{**fields, **more})


def tainted(effect: str = "NoSchedule", key: str = "example.com/bad") -> dict[str, Any]:
    """`each` of a pool whose devices the driver taints."""
    return {"taints": (DeviceTaint(key=key, effect=effect),)}
