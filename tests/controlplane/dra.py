"""A DRA driver's and an administrator's writes: slices, device status, classes, claims, taint rules.

No plugin runs on the hollow nodes; what a driver would publish is written through the apiserver in its place. The real
scheduler allocates and the real taint controller evicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.controlplane.client import Api
from tests.controlplane.process import wait_for

_GROUP = "/apis/resource.k8s.io"


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device of a slice. Attribute values may be str, bool, int; ``version("1.2.0")`` gives a version."""

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, Any]] = ()

    def document(self) -> dict[str, Any]:
        """The device as it stands in a ResourceSlice."""
        document: dict[str, Any] = {"name": self.name}
        if self.attributes:
            document["attributes"] = {name: _attribute(value) for name, value in self.attributes.items()}
        if self.capacity:
            document["capacity"] = {name: {"value": value} for name, value in self.capacity.items()}
        if self.taints:
            document["taints"] = [dict(taint) for taint in self.taints]
        return document

    def tainted(self, key: str, effect: str, value: str | None = None) -> Device:
        """The same device with one more taint of the driver's own."""
        return replace(self, taints=[*self.taints, taint(key, effect, value)])


@dataclass(frozen=True)
class version:  # noqa: N801 - reads as a literal in device attributes
    """An attribute value of the type version."""

    text: str


def _attribute(value: Any) -> dict[str, Any]:
    if isinstance(value, version):
        return {"version": value.text}
    kind = {bool: "bool", int: "int", str: "string"}[type(value)]
    return {kind: value}


def taint(key: str, effect: str, value: str | None = None) -> dict[str, Any]:
    """A device taint; ``effect`` is None, NoSchedule or NoExecute (as a word)."""
    return {"key": key, "effect": effect} | ({} if value is None else {"value": value})


class Driver:
    """The publishing side of one driver, on any number of nodes."""

    def __init__(self, api: Api, name: str) -> None:
        self.api = api
        self.name = name

    def slices(self, pool: str | None = None) -> list[dict[str, Any]]:
        """The slices of this driver, of one pool when named, by name."""
        found = [
            slice_
            for slice_ in self.api.items(f"{_GROUP}/v1/resourceslices")
            if slice_["spec"]["driver"] == self.name
            and (pool is None or slice_["spec"]["pool"]["name"] == pool)
        ]
        return sorted(found, key=lambda slice_: str(slice_["metadata"]["name"]))

    def publish(
        self,
        pool: str,
        devices: Sequence[Device],
        *,
        node: str | None = None,
        slices: int = 1,
        only: Iterable[int] | None = None,
        keep_older: bool = False,
    ) -> int:
        """Publish ``devices`` as the content of ``pool``, over ``slices`` slices, and return the pool's generation.

        The generation rises with each call, and slices of older ones are removed after the new ones are written, as a
        driver's plugin does. ``node`` makes a node's pool; without it all nodes reach the devices. ``only`` writes only
        the slices of these numbers (an incomplete pool); ``keep_older`` leaves slices of older generations.
        """
        before = self.slices(pool)
        generation = max((slice_["spec"]["pool"]["generation"] for slice_ in before), default=0) + 1
        where = {"allNodes": True} if node is None else {"nodeName": node}
        owner = {} if node is None else {"ownerReferences": [self._owner(node)]}
        for number in range(slices) if only is None else only:
            self.api.post(
                f"{_GROUP}/v1/resourceslices",
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceSlice",
                    "metadata": {"generateName": f"{node or pool}-{self.name}-", **owner},
                    "spec": {
                        "driver": self.name,
                        **where,
                        "pool": {"name": pool, "generation": generation, "resourceSliceCount": slices},
                        "devices": [device.document() for device in devices[number::slices]],
                    },
                },
            )
        if not keep_older:
            for slice_ in before:
                self.api.delete(f"{_GROUP}/v1/resourceslices/{slice_['metadata']['name']}")
        return generation

    def _owner(self, node: str) -> dict[str, Any]:
        uid = self.api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
        return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}

    def withdraw(self, pool: str | None = None) -> None:
        """Delete the slices of a pool, or all, as a starting kubelet does."""
        for slice_ in self.slices(pool):
            self.api.delete(f"{_GROUP}/v1/resourceslices/{slice_['metadata']['name']}")

    def report_status(
        self,
        namespace: str,
        claim: str,
        *,
        ready: bool = True,
        data: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Fill status.devices of an allocated claim for this driver's devices, and return the claim."""
        path = f"{_GROUP}/v1/namespaces/{namespace}/resourceclaims/{claim}"
        document = dict(self.api.get(path))
        results = document["status"]["allocation"]["devices"]["results"]
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "Prepared" if ready else "PrepareFailed",
            "message": "",
            "lastTransitionTime": document["metadata"]["creationTimestamp"],
        }
        others = [device for device in document["status"].get("devices", []) if device["driver"] != self.name]
        own = [
            {key: result[key] for key in ("driver", "pool", "device")}
            | {"conditions": [condition]}
            | ({} if data is None else {"data": dict(data)})
            | ({} if network is None else {"networkData": dict(network)})
            for result in results
            if result["driver"] == self.name
        ]
        document["status"]["devices"] = [*others, *own]
        return dict(self.api.put(f"{path}/status", document))


def plugin(
    namespace: str, name: str, image: str, *, labels: Mapping[str, str], node_selector: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The Namespace and the DaemonSet that run a driver's plugin on its nodes."""
    selector = {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
            "spec": {
                "selector": {"matchLabels": selector},
                "template": {
                    "metadata": {"labels": dict(labels)},
                    "spec": {
                        "nodeSelector": dict(node_selector),
                        "tolerations": [{"operator": "Exists"}],
                        "containers": [{"name": "plugin", "image": image, "args": ["--v=4"]}],
                    },
                },
            },
        },
    ]


def device_class(name: str, driver: str, *, extended_resource: str | None = None) -> dict[str, Any]:
    """A DeviceClass of all devices of a driver."""
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
    if extended_resource is not None:
        spec["extendedResourceName"] = extended_resource
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def claim(
    namespace: str, name: str, device_class_name: str, *, asks: str = "device", **request: Any
) -> dict[str, Any]:
    """A ResourceClaim with one request, named ``asks``; ``request`` adds count, selectors, tolerations and so on."""
    exactly = {"deviceClassName": device_class_name, **request}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": asks, "exactly": exactly}]}},
    }


def pod(
    namespace: str,
    name: str,
    *,
    limits: Mapping[str, str] | None = None,
    claims: Mapping[str, str] | None = None,
    templates: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Pod of one container that asks for extended resources, claims (entry → claim) or claims of templates."""
    entries = [{"name": entry, "resourceClaimName": target} for entry, target in (claims or {}).items()]
    entries += [
        {"name": entry, "resourceClaimTemplateName": target} for entry, target in (templates or {}).items()
    ]
    resources: dict[str, Any] = {}
    if limits:
        resources["limits"] = dict(limits)
    if entries:
        resources["claims"] = [{"name": entry["name"]} for entry in entries]
        spec = {**spec, "resourceClaims": entries}
    container = {"name": "app", "image": "registry.example/app:1.0", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], **spec},
    }


def taint_rule_version(api: Api) -> str | None:
    """The newest version in which DeviceTaintRule is served, or None."""
    for candidate in ("v1", "v1beta2", "v1alpha3"):
        served = api.find(f"{_GROUP}/{candidate}")
        if served and any(entry["name"] == "devicetaintrules" for entry in served["resources"]):
            return candidate
    return None


def taint_rule(
    name: str,
    *,
    api_version: str,
    key: str,
    effect: str,
    value: str | None = None,
    driver: str | None = None,
    pool: str | None = None,
    device: str | None = None,
) -> dict[str, Any]:
    """A DeviceTaintRule; ``api_version`` is one of ``taint_rule_version``."""
    selector = {
        key_: value_
        for key_, value_ in (("driver", driver), ("pool", pool), ("device", device))
        if value_ is not None
    }
    return {
        "apiVersion": f"resource.k8s.io/{api_version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": taint(key, effect, value)},
    }


def taint_rule_condition(
    api: Api, name: str, *, api_version: str, reason: str | None = None, timeout: float = 60
) -> dict[str, Any]:
    """Wait for the taint controller's EvictionInProgress condition on the rule's present generation."""
    path = f"{_GROUP}/{api_version}/devicetaintrules/{name}"

    def probe() -> dict[str, Any] | None:
        rule = api.get(path)
        for condition in rule.get("status", {}).get("conditions", []):
            if (
                condition["type"] == "EvictionInProgress"
                and condition.get("observedGeneration") == rule["metadata"]["generation"]
                and (reason is None or condition["reason"] == reason)
            ):
                return dict(condition)
        return None

    return wait_for(f"the taint controller's word on {name}", probe, timeout)


def allocated(api: Api, namespace: str, name: str, timeout: float = 60) -> dict[str, Any]:
    """Wait until a claim is allocated, and return it."""
    path = f"{_GROUP}/v1/namespaces/{namespace}/resourceclaims/{name}"

    def probe() -> dict[str, Any] | None:
        document = api.find(path)
        return dict(document) if document and document.get("status", {}).get("allocation") else None

    return wait_for(f"allocation of {namespace}/{name}", probe, timeout)


def running(api: Api, namespace: str, name: str, timeout: float = 90) -> dict[str, Any]:
    """Wait until a Pod runs, and return it."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"

    def probe() -> dict[str, Any] | None:
        document = api.find(path)
        return dict(document) if document and document["status"].get("phase") == "Running" else None

    return wait_for(f"Pod {namespace}/{name} running", probe, timeout)


def unschedulable(api: Api, namespace: str, name: str, timeout: float = 60) -> str:
    """Wait until the scheduler says why it cannot place a Pod, and return its message."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"

    def probe() -> str | None:
        document = api.find(path) or {}
        for condition in document.get("status", {}).get("conditions", []):
            if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
                return str(condition["message"])
        return None

    return wait_for(f"the scheduler's reason for {namespace}/{name}", probe, timeout)


def extended_resource_claim(api: Api, namespace: str, name: str, timeout: float = 60) -> dict[str, Any]:
    """Wait for the claim that the scheduler made for a Pod's extended resources, and return it."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"

    def probe() -> str | None:
        status = (api.find(path) or {}).get("status", {}).get("extendedResourceClaimStatus")
        return str(status["resourceClaimName"]) if status else None

    return allocated(api, namespace, wait_for(f"the scheduler's claim of {name}", probe, timeout))
