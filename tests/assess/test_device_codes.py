"""Every code about devices has an input that makes it and a twin, one thing changed, that does not."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from changegen.assess.codes import CODES
from changegen.model.profile import (
    DeviceTaintWish,
    DriverWish,
    ExtendedResourceWish,
    Profile,
    Taints,
)
from changegen.model.snapshot import (
    Attribute,
    DeviceHealth,
    DeviceStatus,
    DisruptionBudget,
    Driver,
    DriverRights,
    EventFact,
    Quota,
    Slice,
    Snapshot,
    Workload,
    WorkloadRef,
)
from tests.assess.build import api, control_plane, kubelet, node, of, profile, run, with_fields
from tests.assess.gpus import (
    DRIVER,
    RESOURCE,
    claim,
    gpu_class,
    gpus,
    holding,
    pool,
    rule,
    tainted,
    user,
)

MODULES = ("drivers", "taints", "extended", "capability", "capacity", "health", "troubleshoot")
OURS = tuple(row.code for name in MODULES for row in import_module(f"changegen.assess.{name}").CODES)

Case = tuple[Snapshot, Profile]
PLUGIN = WorkloadRef(kind="DaemonSet", namespace="drivers", name="gpu-dra")


def driver(**more: Any) -> Driver:
    fields: dict[str, Any] = {
        "driver": DRIVER,
        "version": "v1.0.0",
        "version_source": "image tag",
        "workload": PLUGIN,
        "container": "plugin",
        "image": "registry.example/gpu-dra:v1.0.0",
        "nodes": ("n1",),
        "pod_nodes": ("n1",),
        "ready_nodes": ("n1",),
        "desired": 1,
        "ready": 1,
        "devices": 2,
    }
    return Driver(**{**fields, **more})


def on(*parts: Any, wanted: Profile | None = None, **more: Any) -> Case:
    return gpus(*parts, **more), wanted or profile()


def versions(one: str, other: str) -> Case:
    def attribute(text: str) -> dict[str, Attribute]:
        return {f"{DRIVER}/driverVersion": Attribute(type="version", value=text)}

    counts = {one: 4} if one == other else {one: 2, other: 2}
    two = driver(
        nodes=("n1", "n2"), pod_nodes=("n1", "n2"), ready_nodes=("n1", "n2"), device_driver_versions=counts
    )
    return on(pool("n1", attributes=attribute(one)), pool("n2", attributes=attribute(other)), two)


def sourced(source: Any, *parts: Any, to: str = "1.37.2", **more: Any) -> Case:
    """A profile that wants the resource from a source; no component's gates are seen."""
    wish = ExtendedResourceWish(name=RESOURCE, source=source, device_class="" if source != "dra" else DRIVER)
    return on(*parts, wanted=profile(to, extended_resources=(wish,)), **more)


def speaking(image: str, tag: str, name: str = "dra.net") -> Case:
    """A cluster on 1.36 with the release of a driver."""
    found = driver(driver=name, version=tag, image=f"{image}:{tag}")
    parts = (*control_plane("v1.36.3"), kubelet("n1", gates={}))
    return on(pool("n1", driver=name), found, components=parts)


def ready_pair(version: str = "v1.37.2", flags: str = "", **more: Any) -> tuple[Any, ...]:
    return control_plane(version, flags=flags, **more)


def kubelets(gate: bool | None, version: str = "v1.36.3") -> Case:
    gates = {} if gate is None else {"DRAExtendedResource": gate}
    wanted = profile(target=with_fields(profile().target, components=()))
    parts = (*control_plane("v1.36.3"), kubelet("n1", version, gates))
    return on(
        pool("n1"),
        wanted=with_fields(wanted, target=with_fields(wanted.target, kubernetes="")),
        components=parts,
    )


def quota(key: str) -> Case:
    return on(pool("n1"), quotas=(Quota(namespace="ml", name="q", hard={key: "4"}),))


def migrating(*, published: bool) -> Case:
    wanted = profile(extended_resources=(ExtendedResourceWish(name=RESOURCE, device_class=DRIVER),))
    parts = (*control_plane("v1.36.3"), kubelet("n1", gates={}))
    pools = (pool("n1"),) if published else ()
    return on(*pools, node("n1", allocatable={RESOURCE: "2"}), wanted=wanted, components=parts)


def selected(selector: str, **attributes: Attribute) -> Case:
    return on(pool("n1", attributes=attributes), gpu_class(selectors=(selector,)))


def rights(own: bool, **more: Any) -> Case:
    status = DeviceStatus(driver=DRIVER, pool="n1", device="gpu-0", interface_name="eth1")
    held = claim("c", ("n1", "gpu-0"), pods=("a",), device_status=(status,))
    found = DriverRights(
        driver=DRIVER, service_account="drivers/plugin", can_update_status=True, can_update_driver_status=own
    )
    return on(
        pool("n1"),
        user("a", claim="c"),
        held,
        driver_rights=(found,),
        components=control_plane("v1.36.3"),
        **more,
    )


def pending(wants: int) -> Case:
    return on(pool("n1"), user("a", on="", wants=wants, owner=None))


def event(reason: str) -> Case:
    found = EventFact(
        type="Warning", reason=reason, kind="Pod", namespace="ml", name="a", source="kubelet", node="n1"
    )
    return on(pool("n1"), user("a"), driver(), events=(found,))


def woken(effect: str, flags: str) -> Case:
    off = control_plane("v1.36.3", flags=flags)
    return on(pool("n1"), rule(DRIVER, effect=effect), components=off)


def newly(effect: str) -> Case:
    parts = control_plane("v1.36.3", flags="DRADeviceTaintRules=true")
    return on(pool("n1"), holding("a", "n1", "gpu-0", "n1"), rule(DRIVER, effect=effect), components=parts)


def wished(effect: str, key: str = "example.com/maint") -> Case:
    wish = DeviceTaintWish(key=key, expect="absent")
    return on(pool("n1"), rule(DRIVER, effect=effect), wanted=profile(taints=Taints(devices=(wish,))))


def rollout_of(**where: str) -> Case:
    wish = DeviceTaintWish(
        key="k", effect="NoExecute", expect="rollout" if where.pop("go", "") else "absent", **where
    )
    return on(pool("n1"), wanted=profile(taints=Taints(devices=(wish,))))


def features(*names: str, flags: str = "", **more: Any) -> Case:
    return on(
        pool("n1"),
        wanted=profile(features=names),
        components=(*control_plane("v1.36.3", flags=flags), kubelet("n1", gates={})),
        **more,
    )


def counters(flags: str) -> Case:
    shared = pool("n1", each={"consumes_counters": ("c/slots=1",)})
    return on(shared, components=control_plane("v1.36.3", flags=flags))


def budget(
    allowed: int, observed: bool = True, names: tuple[str, ...] = ("a",)
) -> tuple[DisruptionBudget, ...]:
    return tuple(
        DisruptionBudget(
            namespace="ml",
            name=f"b{at}",
            disruptions_allowed=allowed,
            expected_pods=1,
            observed=observed,
            pods=(name,),
        )
        for at, name in enumerate(names)
    )


GONE = ("2026-01-01T00:00:00Z", "")
BASE = on(pool("n1"), driver())
STUCK: dict[str, Any] = {
    "deleting_since": "2026-01-01T00:00:00Z",
    "finalizers": ("resource.kubernetes.io/delete-protection",),
}

CASES: dict[str, tuple[Callable[[], Case], Callable[[], Case]]] = {
    "CG-DRIVER-001": (
        lambda: on(pool("n1"), driver(version="unobservable", image="registry.example/gpu-dra:latest")),
        lambda: BASE,
    ),
    "CG-DRIVER-002": (
        lambda: on(pool("n1"), driver(labels_version="v0.9.0")),
        lambda: on(pool("n1"), driver(labels_version="1.0.0", chart="gpu-dra-1.0.0")),
    ),
    "CG-DRIVER-003": (lambda: on(pool("n1"), driver(other_versions={"v0.9.0": 1})), lambda: BASE),
    "CG-DRIVER-004": (lambda: versions("1.1.0", "1.2.0"), lambda: versions("1.1.0", "1.1.0")),
    "CG-DRIVER-005": (lambda: versions("0.0.0", "0.0.0"), lambda: versions("1.1.0", "1.1.0")),
    "CG-DRIVER-006": (
        lambda: on(pool("n1"), driver(workload=None, version="unobservable")),
        lambda: BASE,
    ),
    "CG-DRIVER-007": (
        lambda: on(pool("n1"), driver(), wanted=profile(drivers=(DriverWish(name="nic.example.com"),))),
        lambda: on(pool("n1"), driver(), wanted=profile(drivers=(DriverWish(name=DRIVER),))),
    ),
    "CG-DRIVER-008": (
        lambda: on(
            pool("n1"),
            driver(),
            node("n1", labels={"gpu": "yes"}),
            node("n2", labels={"gpu": "yes"}),
            wanted=profile(drivers=(DriverWish(name=DRIVER, nodes="gpu=yes"),)),
        ),
        lambda: on(
            pool("n1"),
            driver(),
            node("n1", labels={"gpu": "yes"}),
            node("n2"),
            wanted=profile(drivers=(DriverWish(name=DRIVER, nodes="gpu=yes"),)),
        ),
    ),
    "CG-DRIVER-009": (lambda: on(pool("n1"), driver(desired=2)), lambda: BASE),
    "CG-DRIVER-010": (
        lambda: on(
            pool("n1"),
            driver(version="v25.8.1"),
            wanted=profile(drivers=(DriverWish(name=DRIVER, version="v0.4.0"),)),
        ),
        lambda: on(
            pool("n1"),
            driver(version="v0.3.0"),
            wanted=profile(drivers=(DriverWish(name=DRIVER, version="v0.4.0"),)),
        ),
    ),
    "CG-DRIVER-011": (
        lambda: speaking("registry.k8s.io/networking/dranet", "v0.6.2"),
        lambda: speaking("registry.k8s.io/networking/dranet", "v0.7.0"),
    ),
    "CG-DRIVER-012": (
        lambda: speaking("registry.k8s.io/networking/dranet", "v0.1.0"),
        lambda: speaking("registry.k8s.io/networking/dranet", "v0.1.1"),
    ),
    "CG-DRIVER-013": (
        lambda: speaking("ghcr.io/intel/intel-gaudi-resource-driver", "v0.7.2", "gaudi.intel.com"),
        lambda: speaking("ghcr.io/intel/intel-gaudi-resource-driver", "v0.6.1", "gaudi.intel.com"),
    ),
    "CG-DRIVER-014": (
        lambda: speaking("registry.example/own-build", "v1.0.1"),
        lambda: speaking("registry.k8s.io/networking/dranet", "v1.0.1"),
    ),
    "CG-SLICE-001": (
        lambda: on(pool("n1"), driver(pod_nodes=("n1", "n2"), ready_nodes=("n1", "n2"), desired=2, ready=2)),
        lambda: BASE,
    ),
    "CG-SLICE-002": (lambda: on(driver(nodes=(), devices=0), node("n1")), lambda: BASE),
    "CG-SLICE-003": (lambda: on(pool("n1"), driver(ready_nodes=())), lambda: BASE),
    "CG-SLICE-004": (lambda: on(pool("n1"), node("other")), lambda: BASE),
    "CG-SLICE-005": (lambda: on(pool("n1", complete=False, expected_slices=2)), lambda: BASE),
    "CG-SLICE-006": (
        lambda: on(
            pool("n1", slices=(Slice(name="old", generation=0, device_count=1, node="n1", counted=False),))
        ),
        lambda: BASE,
    ),
    "CG-SLICE-007": (
        lambda: on(pool("n1", each={"consumes_counters": ("card/memory=1",)})),
        lambda: on(
            pool("n1", each={"consumes_counters": ("card/memory=1",)}, shared_counters=("card/memory=1",))
        ),
    ),
    "CG-TAINT-001": (
        lambda: on(pool("n1"), rule(DRIVER, effect="None")),
        lambda: on(pool("n1"), rule(DRIVER, effect="NoSchedule")),
    ),
    "CG-TAINT-002": (
        lambda: on(pool("n1"), rule(DRIVER, effect="NoExecute")),
        lambda: on(pool("n1"), rule(DRIVER, effect="None")),
    ),
    "CG-TAINT-003": (lambda: on(pool("n1"), rule()), lambda: on(pool("n1"), rule(DRIVER))),
    "CG-TAINT-004": (lambda: on(pool("n1"), rule(selector="none")), lambda: on(pool("n1"), rule(DRIVER))),
    "CG-TAINT-005": (
        lambda: on(pool("n1"), rule(DRIVER, "nowhere")),
        lambda: on(pool("n1"), rule(DRIVER, "n1")),
    ),
    "CG-TAINT-006": (lambda: on(pool("n1", each=tainted())), lambda: BASE),
    "CG-TAINT-007": (
        lambda: woken("NoSchedule", ""),
        lambda: woken("NoSchedule", "DRADeviceTaintRules=true"),
    ),
    "CG-TAINT-008": (lambda: on(pool("n1", each=tainted())), lambda: on(pool("n1", each=tainted("None")))),
    "CG-TAINT-010": (lambda: wished("NoSchedule"), lambda: wished("NoSchedule", "another/key")),
    "CG-TAINT-011": (
        lambda: on(pool("n1"), rule(DRIVER, other_selectors=("deviceClassName=gpu",))),
        lambda: on(pool("n1"), rule(DRIVER)),
    ),
    "CG-TAINT-012": (lambda: rollout_of(driver=DRIVER, go="yes"), lambda: rollout_of(driver=DRIVER)),
    "CG-TAINT-013": (lambda: newly("NoExecute"), lambda: newly("NoSchedule")),
    "CG-EXT-001": (
        lambda: on(pool("n1"), node("n1", allocatable={RESOURCE: "2"})),
        lambda: on(pool("n1"), node("n1", allocatable={RESOURCE: "0"})),
    ),
    "CG-EXT-002": (
        lambda: on(pool("n1"), gpu_class(), gpu_class("second")),
        lambda: on(pool("n1"), gpu_class(), gpu_class("second", "example.com/other")),
    ),
    "CG-EXT-003": (lambda: kubelets(False), lambda: kubelets(True)),
    "CG-EXT-004": (lambda: quota(f"requests.{RESOURCE}"), lambda: quota("requests.example.com/other")),
    "CG-EXT-005": (
        lambda: on(user("a", on="", wants=1), node("n1"), device_classes=()),
        lambda: on(user("a", on="", wants=1), node("n1"), gpu_class()),
    ),
    "CG-EXT-006": (lambda: migrating(published=False), lambda: migrating(published=True)),
    "CG-EXT-007": (
        lambda: on(
            pool("n1"),
            wanted=profile(extended_resources=(ExtendedResourceWish(name=RESOURCE, device_class="other"),)),
        ),
        lambda: on(
            pool("n1"),
            wanted=profile(extended_resources=(ExtendedResourceWish(name=RESOURCE, device_class=DRIVER),)),
        ),
    ),
    "CG-EXT-009": (
        lambda: sourced("device-plugin", node("n1"), pool("n1")),
        lambda: sourced("device-plugin", node("n1", allocatable={RESOURCE: "2"}), device_classes=()),
    ),
    "CG-EXT-010": (
        lambda: sourced("dra", node("n1", allocatable={RESOURCE: "2"}), pool("n1"), to="1.36.4"),
        lambda: sourced("dra", node("n1", allocatable={RESOURCE: "2"}), pool("n1")),
    ),
    "CG-EXT-008": (lambda: pending(33), lambda: pending(32)),
    "CG-DRA-001": (
        lambda: features("device-taint-rules", flags="DRADeviceTaintRules=false"),
        lambda: features("device-taint-rules", apis=(api("resource.k8s.io/v1", "DeviceTaintRule"),)),
    ),
    "CG-DRA-002": (
        lambda: on(pool("n1"), wanted=profile(features=("consumable-capacity",))),
        lambda: features("consumable-capacity"),
    ),
    "CG-DRA-003": (lambda: features("teleportation"), lambda: features("prioritized-lists")),
    "CG-DRA-004": (lambda: counters("DRAPartitionableDevices=false"), lambda: counters("")),
    "CG-CAP-001": (
        lambda: on(pool("n1"), holding("a", "n1", "gpu-0", "n1")),
        lambda: on(pool("n1"), pool("n2"), holding("a", "n1", "gpu-0", "n1")),
    ),
    "CG-CAP-002": (
        lambda: on(pool("n1"), holding("a", "n1", "gpu-0", "n1"), kinds_read=("pods", "nodes")),
        lambda: on(pool("n1"), holding("a", "n1", "gpu-0", "n1")),
    ),
    "CG-CAP-003": (
        lambda: on(
            pool("n1"),
            pool("n2"),
            holding("a", "n1", "gpu-0", "n1", requests={}, other_constraints=("volume claims",)),
        ),
        lambda: on(pool("n1"), pool("n2"), holding("a", "n1", "gpu-0", "n1", requests={})),
    ),
    "CG-PDB-001": (
        lambda: on(user("a"), disruption_budgets=budget(0)),
        lambda: on(user("a"), disruption_budgets=budget(1)),
    ),
    # The eviction of a Pod that is Pending asks no budget.
    "CG-PDB-002": (
        lambda: on(user("a"), disruption_budgets=budget(1, names=("a", "a"))),
        lambda: on(
            user("a"),
            user("b", phase="Pending"),
            user("c", on=""),
            disruption_budgets=budget(1, names=("a", "b", "b", "c", "c")),
        ),
    ),
    "CG-PDB-003": (
        lambda: on(user("a"), disruption_budgets=budget(0, observed=False)),
        lambda: on(user("a"), disruption_budgets=budget(0)),
    ),
    "CG-DRAIN-001": (lambda: on(user("a", local_storage=True)), lambda: on(user("a"))),
    # A Pod that waits for a node is on none that is drained.
    "CG-DRAIN-002": (
        lambda: on(user("a", owner=None)),
        lambda: on(user("a"), user("b", on="", owner=None)),
    ),
    "CG-CLAIM-001": (
        lambda: on(pool("n1"), user("a", claim="c"), claim("c", ("n1", "gpu-0"), pods=("a",), **STUCK)),
        lambda: on(pool("n1"), user("a", claim="c"), claim("c", ("n1", "gpu-0"), pods=("a",))),
    ),
    "CG-CLAIM-002": (
        lambda: on(
            pool("n1"),
            driver(ready_nodes=()),
            user("a", claim="c", deleting_since=GONE[0]),
            claim("c", ("n1", "gpu-0"), pods=("a",)),
        ),
        lambda: on(
            pool("n1"),
            driver(),
            user("a", claim="c", deleting_since=GONE[0]),
            claim("c", ("n1", "gpu-0"), pods=("a",)),
        ),
    ),
    "CG-CLAIM-003": (
        lambda: on(
            pool("n1", driver="dra.net"),
            user("a", claim="c"),
            claim("c", ("n1", "gpu-0"), pods=("a",), driver="dra.net"),
        ),
        lambda: on(
            pool("n1", driver="dra.net"),
            user("a", claim="c"),
            claim(
                "c",
                ("n1", "gpu-0"),
                pods=("a",),
                driver="dra.net",
                device_status=(
                    DeviceStatus(driver="dra.net", pool="n1", device="gpu-0", interface_name="eth1"),
                ),
            ),
        ),
    ),
    "CG-CLAIM-004": (
        lambda: on(pool("n1", 1), user("a", claim="c"), claim("c", ("n1", "gpu-1"), pods=("a",))),
        lambda: on(pool("n1", 2), user("a", claim="c"), claim("c", ("n1", "gpu-1"), pods=("a",))),
    ),
    "CG-CLAIM-005": (
        lambda: on(pool("n1"), claim("c", ("n1", "gpu-0"), pods=("a",))),
        lambda: on(pool("n1"), user("a", claim="c"), claim("c", ("n1", "gpu-0"), pods=("a",))),
    ),
    "CG-CLAIM-006": (
        lambda: on(claim("c", driver="nobody"), gpu_class()),
        lambda: on(claim("c", driver=DRIVER), gpu_class()),
    ),
    "CG-HEALTH-001": (
        lambda: on(
            user(
                "a", health=(DeviceHealth(container="c", resource=RESOURCE, device="g", health="Unhealthy"),)
            )
        ),
        lambda: on(
            user("a", health=(DeviceHealth(container="c", resource=RESOURCE, device="g", health="Healthy"),))
        ),
    ),
    "CG-ATTR-001": (
        lambda: selected(f'device.attributes["{DRIVER}"].model == "x"'),
        lambda: selected(f'device.attributes["{DRIVER}"].type == "x"'),
    ),
    "CG-ATTR-002": (
        lambda: selected("true", **{"resource.kubernetes.io/numaNode": Attribute(type="string", value="0")}),
        lambda: selected("true", **{"resource.kubernetes.io/numaNode": Attribute(type="int", value=0)}),
    ),
    "CG-ATTR-003": (
        lambda: on(
            pool("n1", attributes={"resource.kubernetes.io/pcieRoot": Attribute(type="string", value="a")}),
            pool(
                "n1", driver="nic.test", attributes={"nic.test/pciRoot": Attribute(type="string", value="a")}
            ),
        ),
        lambda: on(
            pool("n1", attributes={"resource.kubernetes.io/pcieRoot": Attribute(type="string", value="a")}),
            pool(
                "n1",
                driver="nic.test",
                attributes={"resource.kubernetes.io/pcieRoot": Attribute(type="string", value="a")},
            ),
        ),
    ),
    "CG-ATTR-004": (
        lambda: on(
            pool("n1", attributes={f"{DRIVER}/model": Attribute(type="string", value="x")}),
            pool("n2"),
            gpu_class(selectors=(f'device.attributes["{DRIVER}"].model == "x"',)),
        ),
        lambda: on(
            pool("n1", attributes={f"{DRIVER}/model": Attribute(type="string", value="x")}),
            pool("n2"),
            gpu_class(
                selectors=(
                    f'has(device.attributes["{DRIVER}"].model) && device.attributes["{DRIVER}"].model == "x"',
                )
            ),
        ),
    ),
    "CG-RBAC-001": (lambda: rights(False), lambda: rights(True)),
    "CG-RBAC-002": (
        lambda: on(
            pool("n1"),
            workloads=(Workload(kind="Deployment", namespace="kube-system", name="ca", addon="autoscaler"),),
        ),
        lambda: on(
            pool("n1"),
            workloads=(Workload(kind="Deployment", namespace="kube-system", name="x", addon="coredns"),),
        ),
    ),
    "CG-PENDING-001": (lambda: pending(5), lambda: on(pool("n1"), holding("a", "n1", "gpu-0", "n1"))),
    "CG-EVENT-001": (lambda: event("FailedPrepareDynamicResources"), lambda: event("BackOff")),
    "CG-EVENT-002": (lambda: event("DeviceTaintManagerEviction"), lambda: event("BackOff")),
    "CG-EVENT-003": (lambda: event("FailedResourceClaimCreation"), lambda: event("BackOff")),
    "CG-TROUBLE-001": (
        lambda: on(pool("n1"), holding("a", "n1", "gpu-0", "n1"), rule(DRIVER)),
        lambda: on(pool("n1"), holding("a", "n1", "gpu-0", "n1"), rule(DRIVER, effect="NoSchedule")),
    ),
}


def test_no_code_is_without_a_case() -> None:
    assert set(CASES) == set(OURS)


@pytest.mark.parametrize("code", OURS)
def test_a_code_is_made_and_its_twin_is_not(code: str) -> None:
    made, twin = CASES[code]
    assert of(run(*made()), code), f"{code} is not made"
    assert not of(run(*twin()), code), f"{code} is made of its twin too"


@pytest.mark.parametrize("code", OURS)
def test_a_finding_has_what_its_row_says(code: str) -> None:
    row = CODES[code]
    for item in of(run(*CASES[code][0]()), code):
        assert item.severity in (row.severity, *row.others)
        assert item.title == row.title
        assert item.message
        assert item.advice
        assert item.subject.component
