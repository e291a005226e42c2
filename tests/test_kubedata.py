"""The shipped Kubernetes data: what it must hold, and how a folder of it is read."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from changegen import kubedata
from changegen.kubedata import Gate, KubernetesData, KubernetesDataError, load
from changegen.versions import minor_key, try_version
from tools.kubedata import generate

DATA = load()
FOLDER = Path(kubedata.__file__).parent / "data" / "kubernetes"
MINORS = DATA.minors


def test_the_minors_of_this_release() -> None:
    assert MINORS == ("1.34", "1.35", "1.36", "1.37")
    assert (DATA.oldest, DATA.newest) == ("1.34", "1.37")
    assert DATA.knows("v1.37.9-eks-1234567")
    assert not DATA.knows("1.38")
    assert not DATA.knows("latest")


@pytest.mark.parametrize("minor", MINORS)
def test_each_file_names_the_modules_that_it_came_from(minor: str) -> None:
    release = DATA.release(minor)
    version = try_version(release.version)
    assert version is not None
    assert version.minor_version == minor
    assert len(release.date) == 10
    paths = {module.path: module for module in release.modules}
    assert paths["k8s.io/kubernetes"].version == release.version
    for path in ("k8s.io/api", "k8s.io/apiserver", "k8s.io/component-base", "k8s.io/client-go"):
        assert paths[path].version == "v0." + release.version.split(".", 1)[1]
    assert all(module.sum.startswith("h1:") and len(module.sum) == 47 for module in release.modules)


def test_a_minor_without_an_oracle_says_so() -> None:
    assert DATA.release("1.34").checked == "source only"
    assert {DATA.release(minor).checked for minor in MINORS[1:]} == {"started processes"}


@pytest.mark.parametrize(
    ("minor", "count", "gone"),
    [
        (
            "1.35",
            218,
            (
                "AllowServiceLBStatusOnNonLB ComponentSLIs CronJobsScheduledAnnotation LoadBalancerIPMode PodIndexLabel "
                "ProbeHostPodSecurityStandards SizeMemoryBackedVolumes StatefulSetAutoDeletePVC StrictCostEnforcementForVAP "
                "StrictCostEnforcementForWebhooks UserNamespacesPodSecurityStandards"
            ),
        ),
        (
            "1.36",
            242,
            (
                "CSIMigrationPortworx HonorPVReclaimPolicy InPlacePodVerticalScalingAllocatedStatus "
                "InTreePluginPortworxUnregister MemoryManager ServiceTrafficDistribution StructuredAuthorizationConfiguration "
                "TopologyAwareHints WatchFromStorageWithoutResourceVersion"
            ),
        ),
        (
            "1.37",
            254,
            (
                "APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors "
                "AuthorizeWithSelectors BtreeWatchCache ConsistentListFromCache GangScheduling JobBackoffLimitPerIndex "
                "JobPodReplacementPolicy JobSuccessPolicy LogarithmicScaleDown OrderedNamespaceDeletion "
                "PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PreventStaticPodAPIReferences "
                "RelaxedDNSSearchValidation ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints "
                "SidecarContainers StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf "
                "StructuredAuthenticationConfiguration WorkloadAwarePreemption"
            ),
        ),
    ],
)
def test_gates_that_a_minor_no_longer_knows(minor: str, count: int, gone: str) -> None:
    before = MINORS[MINORS.index(minor) - 1]
    assert len(DATA.gates(minor)) == count
    assert sorted(set(DATA.gates(before)) - set(DATA.gates(minor))) == sorted(gone.split())
    for name in gone.split():
        history = DATA.gate(name)
        assert history is not None
        assert history.removed_in == minor
        assert history.last == before


def test_gates_that_the_official_list_lacks_or_misnames() -> None:
    for name in ("AtomicFIFO", "ClientsAllowCBOR", "InformerResourceVersion", "WatchListClient"):
        assert DATA.gates("1.37")[name].origin == "client-go"
    for minor in MINORS:
        assert "CustomCPUCFSQuotaPeriod" in DATA.gates(minor)
        assert "CPUCFSQuotaPeriod" not in DATA.gates(minor)
    assert DATA.gates("1.34")["WatchListClient"].overrides == {"kube-controller-manager": {"0.0": True}}
    assert DATA.gate("NoSuchGate") is None


@pytest.mark.parametrize(
    ("gate", "components"),
    [
        ("DRAExtendedResource", {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"}),
        ("DRADeviceTaintRules", {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}),
        ("DRAPrioritizedList", {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}),
        ("DRAResourcePoolStatus", {"kube-apiserver", "kube-controller-manager"}),
        ("NFTablesNetlink", {"kube-proxy"}),
        ("KubeletInUserNamespace", {"kube-apiserver", "kubelet"}),
    ],
)
def test_programs_that_read_a_gate(gate: str, components: set[str]) -> None:
    assert set(DATA.gates("1.37")[gate].components) == components


def test_proposals_that_the_source_names() -> None:
    assert DATA.gates("1.37")["DRAExtendedResource"].keps == (5004,)
    assert DATA.gates("1.37")["DRADeviceTaintRules"].keps == (5055,)
    assert sum(1 for gate in DATA.gates("1.37").values() if gate.keps) > 150


@pytest.mark.parametrize("minor", MINORS)
def test_every_gate_obeys_the_rules_of_the_registry(minor: str) -> None:
    gates = DATA.gates(minor)
    for name, gate in gates.items():
        assert gate.specs, name
        keys = [(minor_key(spec.version), minor_key(spec.min_compat or "0.0")) for spec in gate.specs]
        assert keys == sorted(keys), name
        assert all(minor_key(spec.version) <= minor_key(minor) for spec in gate.specs), name
        locked = [spec.lock for spec in gate.specs]
        assert locked == sorted(locked), f"{name} unlocks"
        assert set(gate.depends) <= set(gates), name
        for versions in gate.overrides.values():
            assert set(versions) <= {spec.version for spec in gate.specs}, name
    if minor == "1.34":
        assert not any(gate.depends for gate in gates.values())
    else:
        assert _acyclic(dict(gates))


def _acyclic(gates: dict[str, Gate]) -> bool:
    done: set[str] = set()
    while True:
        ready = {name for name, gate in gates.items() if name not in done and set(gate.depends) <= done}
        if not ready:
            return done == set(gates)
        done |= ready


@pytest.mark.parametrize("minor", MINORS)
def test_apis_agree_with_groups_lifecycle_and_storage(minor: str) -> None:
    facts = DATA.minor(minor)
    seen = set()
    for api in facts.apis:
        key = (api.group, api.version, api.kind)
        assert key not in seen
        seen.add(key)
        assert api.version in facts.groups[api.group]
        assert set(api.gates) <= set(facts.gates)
        if api.enabled:
            assert api.served
            assert facts.versions[api.group_version]
        if api.served:
            assert api.resource
            assert api.removed is None or minor_key(api.removed) > minor_key(minor)
        if api.storage and api.resource:
            group, _, version = api.storage.rpartition("/")
            assert version in facts.groups[group]
    resources = [(api.group_version, api.resource) for api in facts.apis if api.resource]
    assert len(resources) == len(set(resources))
    assert {api.resource for api in facts.apis if not api.group and api.enabled} >= {
        "pods",
        "nodes",
        "secrets",
        "services",
    }


@pytest.mark.parametrize(
    ("minor", "group", "kind", "storage"),
    [
        ("1.34", "resource.k8s.io", "ResourceClaim", "resource.k8s.io/v1beta2"),
        ("1.37", "resource.k8s.io", "ResourceClaim", "resource.k8s.io/v1"),
        ("1.36", "resource.k8s.io", "DeviceTaintRule", "resource.k8s.io/v1alpha3"),
        ("1.37", "resource.k8s.io", "DeviceTaintRule", "resource.k8s.io/v1beta2"),
        ("1.36", "scheduling.k8s.io", "Workload", "scheduling.k8s.io/v1alpha2"),
        ("1.37", "scheduling.k8s.io", "Workload", "scheduling.k8s.io/v1beta1"),
        ("1.37", "events.k8s.io", "Event", "v1"),
    ],
)
def test_storage_versions(minor: str, group: str, kind: str, storage: str) -> None:
    kinds = [api for api in DATA.apis(minor) if (api.group, api.kind) == (group, kind) and api.resource]
    assert {api.storage for api in kinds} == {storage}


def test_flags_that_came_and_went() -> None:
    assert "storage-driver-user" in DATA.flags("kubelet", "1.36")
    assert "storage-driver-user" not in DATA.flags("kubelet", "1.37")
    assert "concurrent-service-syncs" not in DATA.flags("kube-controller-manager", "1.37")
    assert "min-compatibility-version" not in DATA.flags("kube-apiserver", "1.34")
    assert "min-compatibility-version" in DATA.flags("kube-apiserver", "1.35")
    assert "pod-infra-container-image" not in DATA.flags("kubelet", "1.35")
    assert DATA.flags("kubelet", "1.37")["feature-gates"].deprecated
    assert DATA.flags("kube-apiserver", "1.37")["profiling"].bare
    assert not DATA.flags("kube-apiserver", "1.37")["feature-gates"].bare
    assert DATA.flags("no-such-component", "1.37") == {}


def test_base_versions_and_kubeadm_s_own_gates() -> None:
    base = DATA.base_versions("1.37")
    assert base is not None
    assert (base.etcd, base.coredns, base.pause) == ("3.7.0-0", "v1.14.6", "3.10.2")
    assert base.kubeadm_apis[-1] == "v1beta4"
    assert "v1beta3" not in base.kubeadm_apis
    older = DATA.base_versions("1.36")
    assert older is not None
    assert "v1beta3" in older.kubeadm_apis
    assert set(DATA.kubeadm_gate("PublicKeysECDSA")) == {"1.34", "1.35", "1.36"}
    assert set(DATA.kubeadm_gate("RootlessControlPlane")) == set(MINORS)
    assert DATA.kubeadm_gate("SidecarContainers") == {}
    for minor in MINORS:
        own = DATA.base_versions(minor)
        assert own is not None
        assert not set(own.kubeadm_gates) & set(DATA.gates(minor))


def test_the_skew_rules_agree_with_what_kubeadm_compiles_in() -> None:
    rules = {(rule.component, rule.against): rule for rule in DATA.skew}
    assert rules["kubelet", "kube-apiserver"].newer == 0
    assert rules["kube-apiserver", "kube-apiserver"].peers
    for minor in MINORS:
        base = DATA.base_versions(minor)
        assert base is not None
        number = minor_key(minor)[1]
        assert number - minor_key(base.kubelet_minimum)[1] == rules["kubelet", "kube-apiserver"].older
        assert number - minor_key(base.control_plane_minimum)[1] == 1


@pytest.mark.parametrize("path", sorted(FOLDER.glob("1.*.json")), ids=lambda path: path.stem)
def test_files_are_as_the_generator_writes_them(path: Path) -> None:
    content = path.read_text(encoding="utf-8")
    assert generate.pretty(json.loads(content)) == content


def test_the_skew_file_is_as_the_generator_writes_it() -> None:
    assert (FOLDER / "skew.json").read_text(encoding="utf-8") == generate.skew_file()


def copy_minors(target: Path, *minors: str) -> Path:
    for minor in minors:
        (target / f"{minor}.json").write_bytes((FOLDER / f"{minor}.json").read_bytes())
    return target


def test_another_folder_replaces_the_data(tmp_path: Path) -> None:
    other = load(copy_minors(tmp_path, "1.35", "1.36"))
    assert other.minors == ("1.35", "1.36")
    assert other.skew == ()
    assert other.digest != DATA.digest
    gone = other.gate("MemoryManager")
    assert gone is not None
    assert (gone.added_in, gone.removed_in) == (None, "1.36")
    new = other.gate("AtomicFIFO")
    assert new is not None
    assert new.added_in == "1.36"
    with pytest.raises(KubernetesDataError, match=r"1\.37.*1\.35, 1\.36"):
        other.minor("1.37")


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    assert load(copy_minors(first, "1.37")).digest == load(copy_minors(second, "1.37")).digest


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "1.37.json"),
        ('{"schema":"changegen.kubernetes/v1","minor":"1.37"}', "release"),
        (
            '{"schema":"other/v1","minor":"1.37","release":{"version":"v1.37.2"},"gates":{}}',
            "schema other/v1",
        ),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "1.37.json").write_text(content, encoding="utf-8")
    with pytest.raises(KubernetesDataError, match=said):
        load(tmp_path)


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubernetesDataError, match="no Kubernetes data"):
        load(tmp_path)
    with pytest.raises(KubernetesDataError, match="no Kubernetes data"):
        load(tmp_path / "absent")


def test_a_broken_skew_file_is_named(tmp_path: Path) -> None:
    copy_minors(tmp_path, "1.37")
    (tmp_path / "skew.json").write_text('[{"component": 1}]', encoding="utf-8")
    with pytest.raises(KubernetesDataError, match=r"skew\.json"):
        load(tmp_path)


def test_histories_are_contiguous() -> None:
    # A gate that went and came back would make "removed in" a lie.
    for name in DATA.gate_names:
        history = DATA.gate(name)
        assert history is not None
        places = [MINORS.index(minor) for minor in history.by_minor]
        assert all(later - earlier == 1 for earlier, later in itertools.pairwise(places)), name


def test_data_is_shared_between_callers() -> None:
    assert load() is load()
    assert isinstance(load(), KubernetesData)
