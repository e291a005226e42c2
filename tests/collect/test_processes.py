"""Texts of debugging endpoints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changegen.collect.documents import Document, RawText, Role
from changegen.collect.inventory import Inventory
from changegen.collect.processes import flagz_lines, metric_rows, process_facts
from changegen.model.snapshot import ProcessFact


def fact(role: Role, text: str, component: str = "", *, from_name: bool = False) -> ProcessFact:
    record = RawText(place="x.txt", role=role, text=text, component=component, from_name=from_name)
    (found,) = process_facts(Inventory.from_records([record]))
    return found


FLAGS = {
    "feature-gates": ":A=true,:B=false",
    "runtime-config": "resource.k8s.io/v1beta2=true",
    "etcd-servers": "[http://127.0.0.1:2379]",
    "emulated-version": "[]",
    "audit-policy-file": "",
    "v": "2",
}


@pytest.mark.parametrize("delimiter", [":", ": ", "=", " "])
def test_flagz_is_read_with_any_delimiter(delimiter: str) -> None:
    lines = "\n".join(f"{name}{delimiter}{value}" for name, value in FLAGS.items())
    text = f"\napiserver flagz\nWarning: This endpoint is not meant to be machine parseable.\n{lines}\n"
    assert dict(flagz_lines(text)) == FLAGS
    found = fact("flagz", text, "kube-apiserver")
    assert found.flag_gates is not None
    assert found.flag_gates.gates == {"A": True, "B": False}
    assert found.flag_gates.certainty == "effective"
    assert found.runtime_config == ("resource.k8s.io/v1beta2=true",)
    assert {item.name: item.values for item in found.flags} == {
        "feature-gates": (":A=true,:B=false",),
        "runtime-config": ("resource.k8s.io/v1beta2=true",),
        "v": ("2",),
    }
    assert "2379" not in str(found)


def test_flagz_shows_lists_in_brackets() -> None:
    found = fact(
        "flagz", "x flagz\nemulated-version=[1.36]\nmin-compatibility-version=[]\n", "kube-apiserver"
    )
    assert {item.name: item.values for item in found.flags} == {"emulated-version": ("1.36",)}


def test_flagz_that_sets_no_gates_says_so() -> None:
    found = fact("flagz", "x flagz\nfeature-gates:\nv:2\nruntime-config:\n", "kube-scheduler")
    assert found.flag_gates is not None
    assert found.flag_gates.gates == {}
    assert found.runtime_config is None


def test_statusz() -> None:
    text = "\nscheduler statusz\n\nStarted: Tue Dec  1\nBinary version: 1.37.2\nEmulation version: 1.36\n"
    found = fact("statusz", text, "kube-scheduler")
    assert (found.version, found.emulation_version, found.component) == ("v1.37.2", "1.36", "kube-scheduler")


def test_readyz() -> None:
    found = fact("readyz", "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n")
    assert found.readyz == {"ping": True, "etcd": False}
    assert fact("readyz", "ok").readyz == {"readyz": True}


METRICS = """
# HELP kubernetes_feature_enabled x
kubernetes_feature_enabled{name="A",stage=""} 1
kubernetes_feature_enabled{stage="ALPHA",name="B",} 0
kubernetes_build_info{git_version="v1.37.2",major="1",odd="a\\"b}\\\\"} 1
version_info{binary="1.37.2",component="kube",emulation="1.36",min_compat="1.35"} 1
version_info{binary="9",component="other",emulation="9.9",min_compat="9.8"} 1
apiserver_requested_deprecated_apis{group="resource.k8s.io",removed_release="1.38",resource="resourceclaims",subresource="",version="v1beta1"} 1
apiserver_storage_size_bytes{storage_cluster_id="x"} 1.5e+07
not a sample
"""


def test_metrics() -> None:
    found = fact("metrics", METRICS)
    assert (found.component, found.component_inferred) == ("kube-apiserver", True)
    assert found.version == "v1.37.2"
    assert (found.emulation_version, found.min_compatibility_version) == ("1.36", "1.35")
    assert found.effective_gates == {"A": True, "B": False}
    assert found.gate_stages == {"A": "", "B": "ALPHA"}
    assert [item.removed_release for item in found.requested_deprecated_apis] == ["1.38"]
    assert found.etcd == {"apiserver_storage_size_bytes": "1.5e+07"}


def test_metrics_that_tell_of_no_component_are_of_an_unknown_one() -> None:
    found = fact("metrics", 'kubernetes_feature_enabled{name="A",stage=""} 1\n')
    assert (found.component, found.component_inferred, found.node) == ("unknown", True, None)


def test_a_component_by_the_files_name_is_inferred_and_by_the_texts_head_is_not() -> None:
    assert fact("metrics", METRICS, "kube-scheduler", from_name=True).component_inferred
    assert not fact("metrics", METRICS, "kube-scheduler").component_inferred


def test_labels_with_escapes() -> None:
    (row,) = metric_rows('m{a="x\\"y\\\\z\\n",b="}"} 2 1700000000000')
    assert (row.labels, row.value) == ({"a": 'x"y\\z\n', "b": "}"}, "2")


@given(st.text(max_size=200), st.sampled_from(["metrics", "flagz", "statusz", "readyz"]))
def test_no_text_makes_it_fail(text: str, role: Role) -> None:
    fact(role, text)


def test_version_answers_are_kube_apiservers() -> None:
    data = {
        "major": "1",
        "minor": "37+",
        "gitVersion": "v1.37.2",
        "emulationMajor": "1",
        "emulationMinor": "36",
    }
    document = Document(api_version="", kind="VersionInfo", place="version.json", data=data)
    (found,) = process_facts(Inventory.from_records([document]))
    assert (found.component, found.version, found.emulation_version) == ("kube-apiserver", "v1.37.2", "1.36")
    assert found.min_compatibility_version == ""


def test_the_structured_form_says_the_same_as_the_text() -> None:
    page = {"metadata": {"name": "apiserver"}, "flags": FLAGS}
    document = Document(api_version="config.k8s.io/v1beta1", kind="Flagz", place="x.txt", data=page)
    (found,) = process_facts(Inventory.from_records([document]))
    text = "apiserver flagz\n" + "\n".join(f"{name}={value}" for name, value in sorted(FLAGS.items()))
    assert found == fact("flagz", text, "kube-apiserver")
    status = {"metadata": {"name": "scheduler"}, "binaryVersion": "1.37.2", "emulationVersion": "1.36"}
    document = Document(api_version="config.k8s.io/v1alpha1", kind="Statusz", place="x", data=status)
    (found,) = process_facts(Inventory.from_records([document]))
    assert (found.component, found.version, found.emulation_version) == ("kube-scheduler", "v1.37.2", "1.36")


def test_a_kubelets_command_line_is_not_all_of_its_gates() -> None:
    found = fact("flagz", "kubelet flagz\nv=2\nfeature-gates=\n", "kubelet")
    assert found.flag_gates is not None
    assert not found.flag_gates.complete
