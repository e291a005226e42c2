"""Devices, claims and rules in the shapes of every version of resource.k8s.io."""

from __future__ import annotations

import pytest

from changegen.collect.dra import drivers_named_in
from changegen.model.snapshot import Claim, Device, Pool, TaintRule, Toleration
from tests.devices import claims, classes, gpu_slice, listed, reading, slices

NEW = """
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes:
      model: {string: A}
      other.test/index: {int: 3}
      healthy: {bool: false}
      driverVersion: {version: 1.2.3}
      zones: {strings: [a, b]}
      future: {quantity: 3}
    capacity: {memory: {value: 80Gi}}
    taints: [{key: example.com/x, effect: NoSchedule, value: y, timeAdded: '2026-01-01T00:00:00Z'}]
    consumesCounters: [{counterSet: c, counters: {slots: {value: '2'}}, compatibilityGroups: [g]}]
    bindingConditions: [attached]
    allowMultipleAllocations: true
  sharedCounters: [{name: c, counters: {slots: {value: '8'}}}]
"""


def old_shape() -> str:
    """The same device as v1beta1 writes it: everything but the name under `basic`."""
    head, _, tail = NEW.partition("  - name: gpu-0\n")
    body, _, rest = tail.partition("  sharedCounters")
    inner = "".join(f"  {line}\n" for line in body.rstrip("\n").split("\n"))
    return f"{head}  - name: gpu-0\n    basic:\n{inner}  sharedCounters{rest}"


def pool_of(text: str, version: str) -> Pool:
    return reading(slices(text, version=version)).pools[0]


def device_of(text: str, version: str = "resource.k8s.io/v1") -> Device:
    return pool_of(text, version).devices[0]


def test_the_old_and_the_new_shape_give_one_device() -> None:
    new, old = device_of(NEW), device_of(old_shape(), "resource.k8s.io/v1beta1")
    assert new == old
    assert new.node == "n1"
    assert {name: (a.type, a.value, a.values) for name, a in new.attributes.items()} == {
        "gpu.example.com/model": ("string", "A", ()),
        "other.test/index": ("int", 3, ()),
        "gpu.example.com/healthy": ("bool", False, ()),
        "gpu.example.com/driverVersion": ("version", "1.2.3", ()),
        "gpu.example.com/zones": ("strings", None, ("a", "b")),
        "gpu.example.com/future": ("unknown", None, ()),
    }
    assert new.capacity == {"gpu.example.com/memory": "80Gi"}
    assert new.taints[0].value == "y"
    assert new.consumes_counters == ("c/slots=2",)
    assert new.compatibility_groups == ("g",)
    assert new.allow_multiple_allocations
    assert pool_of(NEW, "resource.k8s.io/v1").shared_counters == ("c/slots=8",)


def test_text_that_looks_like_a_number_stays_text() -> None:
    text = NEW.replace("{string: A}", "{string: '1018'}").replace("name: gpu-0", "name: '0'")
    device = device_of(text)
    assert device.name == "0"
    assert device.attributes["gpu.example.com/model"].value == "1018"


def test_pools_are_keyed_by_driver_and_name_and_complete_by_number() -> None:
    a = gpu_slice("n1", 1)
    other = gpu_slice("n1", 1, driver="nic.example.com")
    found = reading(slices(a, other)).pools
    assert [(p.driver, p.name, p.complete) for p in found] == [
        ("gpu.example.com", "n1", True),
        ("nic.example.com", "n1", True),
    ]
    half = reading(slices(gpu_slice("n1", 1, resourceSliceCount=2))).pools[0]
    assert not half.complete
    assert half.expected_slices == 2


def test_a_pool_for_all_nodes_or_some_has_no_node() -> None:
    some = NEW.replace(
        "nodeName: n1",
        "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: In, values: [a, b]}, {key: x, operator: Exists}]}]}",
    )
    pool = pool_of(some, "resource.k8s.io/v1")
    assert pool.node is None
    assert pool.node_selector == "rack in (a,b),x"
    assert pool.devices[0].node is None
    everywhere = pool_of(NEW.replace("nodeName: n1", "allNodes: true"), "resource.k8s.io/v1")
    assert everywhere.node_selector == "all"
    own = NEW.replace("nodeName: n1", "perDeviceNodeSelection: true").replace(
        "    bindingConditions", "    nodeName: n7\n    bindingConditions"
    )
    assert device_of(own).node == "n7"


def test_each_device_of_a_pool_may_reach_other_nodes() -> None:
    selector = (
        "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: In, values: [a, b]}]}]}"
    )
    own = NEW.replace("nodeName: n1", "perDeviceNodeSelection: true")
    some = device_of(own.replace("    bindingConditions", f"    {selector}\n    bindingConditions"))
    assert (some.node, some.node_selector) == (None, "rack in (a,b)")
    every = device_of(own.replace("    bindingConditions", "    allNodes: true\n    bindingConditions"))
    assert (every.node, every.node_selector) == (None, "all")
    assert device_of(NEW.replace("nodeName: n1", selector)).node_selector == ""


CLAIM = """
metadata:
  name: c
  namespace: ml
  annotations: {resource.kubernetes.io/extended-resource-claim: "true"}
  ownerReferences: [{kind: Pod, name: p, controller: true}]
spec:
  devices:
    requests:
    - name: r
      REQUEST
status:
  allocation:
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}
    devices:
      results:
      - {request: r, driver: gpu.example.com, pool: n1, device: gpu-0, shareID: s1, adminAccess: true,
         tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 30}]}
  devices:
  - driver: gpu.example.com
    pool: n1
    device: gpu-0
    shareID: s1
    data: {secret: never-kept, kind: x}
    networkData: {interfaceName: eth1, hardwareAddress: "00:11", ips: [10.0.0.1/24]}
    conditions: [{type: Ready, status: "True", reason: Done}]
  reservedFor: [{resource: pods, name: p, uid: u}]
"""


def claim_of(request: str, version: str = "resource.k8s.io/v1") -> Claim:
    return reading(claims(CLAIM.replace("REQUEST", request), version=version)).claims[0]


def test_the_three_forms_of_a_request() -> None:
    exactly = claim_of("exactly: {deviceClassName: gpu, count: 2, allocationMode: ExactCount}")
    direct = claim_of(
        "deviceClassName: gpu\n      count: 2\n      allocationMode: ExactCount", "resource.k8s.io/v1beta1"
    )
    assert exactly.requests == direct.requests
    assert (exactly.requests[0].device_class, exactly.requests[0].count) == ("gpu", 2)
    first = claim_of(
        "firstAvailable: [{name: a, deviceClassName: big}, {name: b, deviceClassName: small, count: 3}]"
    )
    assert [(r.name, r.device_class, r.count, r.alternative_of) for r in first.requests] == [
        ("r/a", "big", 1, "r"),
        ("r/b", "small", 3, "r"),
    ]
    every = claim_of("exactly: {deviceClassName: gpu, allocationMode: All}")
    assert every.requests[0].count is None


def test_a_claim_s_allocation_and_status() -> None:
    claim = claim_of("exactly: {deviceClassName: gpu}")
    assert claim.allocated
    assert claim.extended_resource
    assert claim.owner == "Pod/p"
    assert claim.node == "n1"
    device = claim.devices[0]
    assert (device.device, device.share_id, device.admin_access) == ("gpu-0", "s1", True)
    assert device.tolerations == (Toleration(key="k", operator="Exists", effect="NoExecute", seconds=30),)
    status = claim.device_status[0]
    assert (status.interface_name, status.hardware_address, status.ips) == ("eth1", "00:11", ("10.0.0.1/24",))
    assert status.data_keys == ("kind", "secret")
    assert "never-kept" not in repr(claim)
    assert claim.reserved_for[0].name == "p"


def test_a_claim_without_status_is_not_allocated() -> None:
    claim = reading(claims("metadata: {name: c, namespace: ml}\nspec: {devices: null}\nstatus: null")).claims[
        0
    ]
    assert not claim.allocated
    assert claim.requests == ()


def rule_of(selector: str, version: str = "resource.k8s.io/v1") -> TaintRule:
    text = f"metadata: {{name: r, generation: 2}}\nspec:\n{selector}  taint: {{key: a/b, effect: None}}"
    return reading(listed("DeviceTaintRule", text, version=version)).taint_rules[0]


@pytest.mark.parametrize(
    ("selector", "kind"),
    [
        ("", "none"),
        ("  deviceSelector: null\n", "none"),
        ("  deviceSelector: {}\n", "all"),
        ("  deviceSelector: {driver: d}\n", "some"),
        ("  deviceSelector: {pool: p}\n", "some"),
    ],
)
def test_no_selector_an_empty_one_and_one_are_three_things(selector: str, kind: str) -> None:
    assert rule_of(selector).selector == kind


def test_selector_fields_of_old_versions_are_kept_as_not_understood() -> None:
    rule = rule_of(
        "  deviceSelector: {deviceClassName: gpu, selectors: [{cel: {expression: 'true'}}]}\n",
        "resource.k8s.io/v1alpha3",
    )
    assert rule.selector == "all"
    assert rule.other_selectors == ("deviceClassName=gpu", "selectors: true")


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("device.driver == 'a.example.com'", ("a.example.com",)),
        ('"a" == device.driver', ("a",)),
        ('device.driver in ["a", "b"] && true', ("a", "b")),
        ("device.driver != 'a'", ()),
        ("device.attributes['device.driver == x'].y == 1", ()),
    ],
)
def test_driver_names_in_a_selector(expression: str, names: tuple[str, ...]) -> None:
    assert drivers_named_in(expression) == names


def test_classes_keep_name_age_and_configuration_s_driver() -> None:
    text = (
        "metadata: {name: c, creationTimestamp: '2026-01-01T00:00:00Z'}\nspec:\n  extendedResourceName: example.com/gpu\n"
        "  config: [{opaque: {driver: gpu.example.com, parameters: {x: y}}}]"
    )
    found = reading(classes(text)).device_classes[0]
    assert found.extended_resource_name == "example.com/gpu"
    assert found.config_drivers == ("gpu.example.com",)
    assert found.created == "2026-01-01T00:00:00Z"
