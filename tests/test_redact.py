from __future__ import annotations

import json
import re
from importlib.resources import files

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changegen.assess.driver_apis import public_drivers
from changegen.assess.health import FILLS_STATUS
from changegen.model import snapshot as s
from changegen.redact import redact
from changegen.store import canonical


def snap(**fields) -> s.Snapshot:
    base = {
        "tool_version": "0",
        "source": s.Source(kind="files", description="/home/ann/prod-capture"),
        "cluster": s.Cluster(name="prod-a", uid="0e6a5a3e-9d1c-4f57-8a57-3a9f1f0e2d11"),
        "nodes": (s.Node(name="gpu-node-7", hostname="gpu-node-7.corp.example.com"), s.Node(name="cp-1")),
    }
    return s.Snapshot(**{**base, **fields})


def said(text: str, **fields) -> str:
    """What becomes of a text anywhere in a snapshot."""
    event = s.EventFact(
        type="Warning", reason="R", kind="Pod", namespace="kube-system", name="x", message=text
    )
    return redact(snap(events=(event,), **fields))[0].events[0].message


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("on node gpu-node-7.", "on node node-02."),
        ("kube-apiserver-cp-1 failed", "kube-apiserver-node-01 failed"),
        ("gpu-node-77 is another", "gpu-node-77 is another"),
        ("from 10.1.2.3:6443 to 127.0.0.1", "from 198.18.0.1:6443 to 127.0.0.1"),
        ("fd00:10::1 and ::1", "2001:db8::1 and ::1"),
        ("mac 02:42:ac:11:00:02", "mac 02:00:00:00:00:01"),
        ("see https://wiki.corp.example.com/x?y=1", "see https://url-01.example"),
        ("arn:aws:iam::123456789012:role/ops", "arn:aws:redacted:01"),
        ("gpu.corp.example.com/model", "gpu.domain-01.example/model"),
        (
            "resource.kubernetes.io/pcieRoot of gpu.nvidia.com",
            "resource.kubernetes.io/pcieRoot of gpu.nvidia.com",
        ),
        ("files pods.json and jobs.batch v1.37.2", "files pods.json and jobs.batch v1.37.2"),
        ("uid 5b2f8f3e-1111-4222-8333-444455556666", "uid 00000000-0000-4000-8000-000000000002"),
    ],
)
def test_what_is_replaced_inside_text(text, result):
    assert said(text) == result


def test_names_that_shipped_knowledge_hangs_on_stay_and_others_of_that_kind_go():
    rollbacks = json.loads((files("changegen") / "data" / "driver-rollback.json").read_bytes())
    known = {*public_drivers(), *FILLS_STATUS, *(row["driver"] for row in rollbacks)}
    assert {"dra.net", "gpu.nvidia.com", "npu.rebellions.ai"} < known
    for name in sorted(known):
        assert said(f"driver {name} and {name}/ifName") == f"driver {name} and {name}/ifName"
    assert "rebellions.ai" not in said("see host.rebellions.ai")
    assert "example.com" not in said("driver gpu.example.com")


@pytest.mark.parametrize(
    ("image", "result"),
    [
        (
            "harbor.corp.example.com/team/gpu-plugin:v1.24.9.2",
            "images-01.example/path-01/gpu-plugin:v1.24.9.2",
        ),
        ("10.0.0.9:5000/gpu-plugin@sha256:" + "a" * 64, "images-01.example/gpu-plugin@sha256:" + "a" * 64),
        ("library/busybox:1", "library/busybox:1"),
        ("images.k8s.io/kube-proxy:v1.37.2", "images.k8s.io/kube-proxy:v1.37.2"),
    ],
)
def test_images_keep_their_name_and_tag(image, result):
    driver = s.Driver(driver="gpu.nvidia.com", version="v1", version_source="image", image=image)
    assert redact(snap(drivers=(driver,)))[0].drivers[0].image == result


def test_names_in_system_namespaces_stay_and_in_others_go():
    pods = tuple(
        s.PodUse(
            namespace=ns,
            name=name,
            node="cp-1",
            owner=s.WorkloadRef(kind="Deployment", namespace=ns, name=owner),
        )
        for ns, name, owner in (
            ("kube-system", "coredns-abc", "coredns"),
            ("payments", "billing-xyz", "billing"),
        )
    )
    shared = redact(snap(pods=pods))[0]
    assert [(p.namespace, p.name, p.owner.name) for p in shared.pods] == [
        ("kube-system", "coredns-abc", "coredns"),
        ("namespace-01", "pod-01", "workload-01"),
    ]
    text = canonical(shared).decode()
    assert not re.search("payments|billing|prod-a|corp|/home", text)


def test_autoscalers_name_what_they_scale_by_its_pseudonym():
    target = s.WorkloadRef(kind="Deployment", namespace="payments", name="billing")
    scaler = s.Autoscaler(namespace="payments", name="billing-hpa", target=target)
    pod = s.PodUse(namespace="payments", name="p", owner=target)
    shared = redact(snap(pods=(pod,), autoscalers=(scaler,)))[0]
    assert shared.autoscalers[0].target == shared.pods[0].owner
    assert not re.search("payments|billing", canonical(shared).decode())


def test_selectors_still_match_labels():
    budget = s.DisruptionBudget(namespace="payments", name="pdb", selector={"app": "billing", "team": "blue"})
    pod = s.PodUse(namespace="payments", name="p", labels={"app": "billing", "team": "blue", "env": "blue"})
    shared = redact(snap(pods=(pod,), disruption_budgets=(budget,)))[0]
    assert shared.disruption_budgets[0].selector.items() <= shared.pods[0].labels.items()
    assert "blue" not in canonical(shared).decode()


def test_fields_of_configuration_files_stay_though_a_namespace_is_called_the_same():
    shape = s.ConfigShape(
        kind="KubeletConfiguration", fields={"logging": "object", "logging.format": "string"}
    )
    fact = s.ConfigMapFact(namespace="logging", name="kubelet-config", kind="kubelet", document=shape)
    pod = s.PodUse(namespace="logging", name="p")
    (shown,) = redact(snap(config_maps=(fact,), pods=(pod,)))[0].config_maps
    assert shown.document == shape
    assert shown.namespace != "logging"


def test_serial_numbers_of_devices_go_and_kinds_stay():
    string = s.Attribute(type="string", value="GPU-8f1b")
    device = s.Device(
        name="gpu-0",
        attributes={
            "gpu.nvidia.com/uuid": string,
            "gpu.nvidia.com/productName": s.Attribute(type="string", value="NVIDIA H100"),
            "gpu.nvidia.com/driverVersion": s.Attribute(type="version", value="580.105.8"),
        },
    )
    shared = redact(
        snap(pools=(s.Pool(driver="gpu.nvidia.com", name="gpu-node-7", generation=1, devices=(device,)),))
    )[0]
    pool = shared.pools[0]
    assert pool.name == "node-02"
    values = {k: a.value for k, a in pool.devices[0].attributes.items()}
    assert values == {
        "gpu.nvidia.com/uuid": "serial-0001",
        "gpu.nvidia.com/productName": "NVIDIA H100",
        "gpu.nvidia.com/driverVersion": "580.105.8",
    }


def test_a_mapping_is_taken_on():
    first, mapping = redact(snap())
    more = snap(nodes=(s.Node(name="a-new-node"), s.Node(name="gpu-node-7")))
    second, longer = redact(more, mapping)
    assert second.nodes[1].name == first.nodes[0].name
    assert second.nodes[0].name not in {n.name for n in first.nodes}
    assert mapping["node"].items() <= longer["node"].items()
    assert redact(snap(), mapping)[0] == first


names = st.from_regex(r"\A[a-z][a-z0-9]{2,8}(-[a-z0-9]{1,6}){0,2}\Z")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(names, min_size=1, max_size=6, unique=True), st.lists(names, min_size=1, max_size=4, unique=True)
)
def test_no_name_is_left_and_different_names_stay_different(nodes, pods):
    whole = snap(
        nodes=tuple(s.Node(name=n, labels={"kubernetes.io/hostname": n}) for n in sorted(nodes)),
        pods=tuple(s.PodUse(namespace="zone-of-owner", name=p, node=nodes[0]) for p in sorted(pods)),
    )
    shared, mapping = redact(whole)
    assert len({n.name for n in shared.nodes}) == len(nodes)
    assert len({p.name for p in shared.pods}) == len(pods)
    replaced = {name for kind in ("node", "pod", "namespace") for name in mapping[kind]}
    told = [n.name for n in shared.nodes] + [p.name for p in shared.pods] + [p.node for p in shared.pods]
    pseudonyms = {p for known in mapping.values() for p in known.values()}
    assert not [t for t in told if t in replaced and t not in pseudonyms]
    assert redact(whole) == (shared, mapping)
    assert msgspec.convert(msgspec.to_builtins(shared), s.Snapshot) == shared
