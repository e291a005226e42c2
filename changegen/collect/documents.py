"""Documents: what every source of cluster facts gives, live or from files.

A source is an iterator of records. After this point nothing knows whether an object came from an API server, a JSON
file, a YAML file or a tarball:

* :class:`Document`: one API object (or /version, a discovery document, a kubelet's configz), decoded on demand
* :class:`ListSeen`: a kind was listed, even when the list was empty, so that "none" and "not in the capture" differ
* :class:`RawText`: text of /metrics, /flagz, /statusz, /readyz
* :class:`Problem`: what could not be read, or was read with a remark
* :class:`SnapshotFile`: a changegen snapshot, handed over as it is
* :class:`InputSeen`: one per input, last: the layout and the files that were read

Which problems count for exit code 4 (``Problem.failed``): a read that was tried and gave less than it should: a stored
403 or 5xx, a cut or broken file, a document that was refused, a file that cannot be opened. A stored 404 says that
the API is not served, which is an answer. A remark (duplicate key, replaced characters), a file that is no
Kubernetes object, and what is left out on purpose (Secrets, kubeconfigs) are notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from enum import StrEnum
from typing import Any, Literal, TypeVar

import msgspec

T = TypeVar("T")

VERSION_INFO = "VersionInfo"
"""Kind of a document that is the API server's /version answer (never kubectl's own version)."""
KUBELET_CONFIGZ = "KubeletConfigz"
"""Kind of a document that is a kubelet's effective configuration; ``Document.subject`` is the node, if known."""

Role = Literal["metrics", "flagz", "statusz", "readyz", "livez", "healthz"]


class Reason(StrEnum):
    """Why something was not read, or was read with a remark."""

    EMPTY = "empty"
    TRUNCATED = "truncated"
    NOT_KUBERNETES = "not-kubernetes"
    STATUS_ERROR = "status-error"
    """An error answer of the API server, kept as a file or given live; see ``Problem.code``."""
    SYNTAX = "syntax"
    """JSON or YAML that cannot be parsed."""
    ENCODING = "encoding"
    DUPLICATE_KEY = "duplicate-key"
    CONTROL_CHARACTERS = "control-characters"
    TOO_LARGE = "too-large"
    UNSAFE_TAG = "unsafe-tag"
    ALIAS_BOMB = "alias-bomb"
    ARCHIVE_UNSAFE = "archive-unsafe"
    UNREADABLE = "unreadable"
    """The file cannot be opened, or the archive is encrypted."""
    WRONG_TYPE = "wrong-type"
    """A field has a type that its API does not allow."""
    LEFT_OUT = "left-out"
    """Not read on purpose: Secrets, kubeconfigs, links."""
    MASKED = "masked"
    """Values were replaced by the tool that made the capture."""
    SLOW = "slow"


UnobservedReason = Literal["forbidden", "not-served", "error", "truncated", "malformed", "not-in-capture"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What could not be read (``failed``), or a remark on what was.

    ``kind`` is the kind concerned where it can be told, ``group`` its API group, ``name`` and ``namespace`` the object
    or the namespace that was not readable. ``code`` is the HTTP status of a status error.
    """

    place: str
    reason: Reason
    detail: str
    failed: bool
    kind: str = ""
    group: str = ""
    namespace: str = ""
    name: str = ""
    code: int | None = None
    hint: str = ""

    @property
    def unobserved_reason(self) -> UnobservedReason:
        """The reason in the words of ``Snapshot.unobserved``."""
        if self.reason is Reason.STATUS_ERROR:
            if self.code in {401, 403}:
                return "forbidden"
            return "not-served" if self.code == 404 else "error"
        if self.reason is Reason.TRUNCATED:
            return "truncated"
        if self.reason in {Reason.TOO_LARGE, Reason.UNREADABLE, Reason.ARCHIVE_UNSAFE}:
            return "error"
        if self.reason in {Reason.EMPTY, Reason.LEFT_OUT, Reason.NOT_KUBERNETES}:
            return "not-in-capture"
        return "malformed"


class DecodeProblem(Exception):  # noqa: N818  it is a value's worth of trouble, not a failure of the tool
    """An object has a field of a type that its API does not allow.

    ``path`` is msgspec's (``$.spec.taints[0].value``), ``detail`` what was expected and found.
    """

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"{detail} at {path}" if path else detail)
        self.path = path
        self.detail = detail


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One object, not yet decoded.

    ``api_version`` and ``kind`` are the object's own, or the list's where the items of a typed list carry none.
    ``place`` names file, line or item (``pods.json items[3]``, ``all.yaml:120``) or the request path. ``namespace`` is
    what the capture's layout says (the object's own metadata wins), ``subject`` the node of a configz.
    """

    api_version: str
    kind: str
    place: str
    data: Any
    """msgspec.Raw of JSON, or the plain value of YAML. Use :meth:`decode` or :meth:`plain`."""
    namespace: str = ""
    subject: str = ""

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
        return group_of(self.api_version)

    def decode(self, typ: type[T]) -> T:
        """Make ``typ`` of the object; unknown fields are ignored.

        Where a text is wanted and a number or boolean stands there (YAML written by hand), its text is taken; a null
        counts as absent. Any other mismatch raises :class:`DecodeProblem`.
        """
        try:
            if isinstance(self.data, msgspec.Raw):
                return _decoder(typ)(self.data)
            return msgspec.convert(self.data, typ)
        except msgspec.ValidationError:
            return self._mended(typ)
        except (msgspec.DecodeError, RecursionError) as error:
            raise DecodeProblem("", str(error)) from None

    def plain(self) -> dict[str, Any]:
        """Return the object as plain Python values; a fresh copy for JSON, shared for YAML: do not change it."""
        if isinstance(self.data, msgspec.Raw):
            try:
                value: dict[str, Any] = msgspec.json.decode(self.data)
            except (msgspec.DecodeError, RecursionError) as error:
                raise DecodeProblem("", str(error)) from None
            return value
        plain: dict[str, Any] = self.data
        return plain

    def problem(self, error: DecodeProblem) -> Problem:
        """Return a failed decoding as a problem of this document."""
        return Problem(
            place=self.place,
            reason=Reason.WRONG_TYPE,
            detail=str(error),
            failed=True,
            kind=self.kind,
            group=self.group,
            namespace=self.namespace,
            name=_name(self.data),
        )

    def _mended(self, typ: type[T]) -> T:
        tree = deepcopy(self.plain())
        for _ in range(_MAX_MENDS):
            try:
                return msgspec.convert(tree, typ)
            except msgspec.ValidationError as error:
                if not _mend(tree, str(error)):
                    break
        try:
            return msgspec.convert(tree, typ)
        except msgspec.ValidationError as error:
            detail, _, path = str(error).partition(" - at ")
            raise DecodeProblem(path.strip("`"), detail) from None


class ListSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A kind was listed in the capture, with ``count`` items; zero is an answer.

    ``api_version`` is empty when an untyped empty list does not tell it. ``namespace`` is None for a list that is not
    known to be of one namespace only, and empty for one of a single namespace that nothing tells. ``complete`` is False when the list was cut or not all of its items were read.
    """

    group: str
    kind: str
    api_version: str
    place: str
    count: int
    namespace: str | None = None
    complete: bool = True

    @property
    def resource(self) -> str:
        """The resource in kubectl's spelling, ``pods`` or ``resourceslices.resource.k8s.io``."""
        return resource_name(self.group, self.kind)


class RawText(msgspec.Struct, frozen=True, kw_only=True):
    """Text of a debugging endpoint.

    ``component`` is what its own header or the file's name says (empty: unknown), ``from_name`` whether only the file's name
    says so. Which instance answered is never in it.
    """

    place: str
    role: Role
    text: str
    component: str = ""
    from_name: bool = False


class SnapshotFile(msgspec.Struct, frozen=True, kw_only=True):
    """A changegen snapshot (``changegen.snapshot/v1``) as JSON bytes, already unpacked."""

    place: str
    data: bytes


class InputSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one input: what layout it had and which files were read (relative to the input, sorted)."""

    name: str
    layout: str
    """``kubectl``, ``cluster-info dump``, ``must-gather``, ``support bundle``, ``sonobuoy``, ``snapshot``."""
    files: tuple[str, ...]
    root: str = ""
    """The folders around the whole capture (``bundle-2026/``), which places leave out; it ends with a slash."""


Record = Document | ListSeen | RawText | Problem | SnapshotFile | InputSeen


# ------------------------------------------------------------------------------------------------ names of resources

RESOURCES: dict[str, tuple[str, str, bool]] = {
    # resource: group, kind, namespaced. What changegen reads, and what captures usually hold beside it.
    "bindings": ("", "Binding", True),
    "componentstatuses": ("", "ComponentStatus", False),
    "configmaps": ("", "ConfigMap", True),
    "endpoints": ("", "Endpoints", True),
    "events": ("", "Event", True),
    "limitranges": ("", "LimitRange", True),
    "namespaces": ("", "Namespace", False),
    "nodes": ("", "Node", False),
    "persistentvolumeclaims": ("", "PersistentVolumeClaim", True),
    "persistentvolumes": ("", "PersistentVolume", False),
    "pods": ("", "Pod", True),
    "podtemplates": ("", "PodTemplate", True),
    "replicationcontrollers": ("", "ReplicationController", True),
    "resourcequotas": ("", "ResourceQuota", True),
    "secrets": ("", "Secret", True),
    "serviceaccounts": ("", "ServiceAccount", True),
    "services": ("", "Service", True),
    "controllerrevisions": ("apps", "ControllerRevision", True),
    "daemonsets": ("apps", "DaemonSet", True),
    "deployments": ("apps", "Deployment", True),
    "replicasets": ("apps", "ReplicaSet", True),
    "statefulsets": ("apps", "StatefulSet", True),
    "cronjobs": ("batch", "CronJob", True),
    "jobs": ("batch", "Job", True),
    "poddisruptionbudgets": ("policy", "PodDisruptionBudget", True),
    "horizontalpodautoscalers": ("autoscaling", "HorizontalPodAutoscaler", True),
    "leases": ("coordination.k8s.io", "Lease", True),
    "deviceclasses": ("resource.k8s.io", "DeviceClass", False),
    "devicetaintrules": ("resource.k8s.io", "DeviceTaintRule", False),
    "resourceclaims": ("resource.k8s.io", "ResourceClaim", True),
    "resourceclaimtemplates": ("resource.k8s.io", "ResourceClaimTemplate", True),
    "resourcepoolstatusrequests": ("resource.k8s.io", "ResourcePoolStatusRequest", False),
    "resourceslices": ("resource.k8s.io", "ResourceSlice", False),
    "clusterrolebindings": ("rbac.authorization.k8s.io", "ClusterRoleBinding", False),
    "clusterroles": ("rbac.authorization.k8s.io", "ClusterRole", False),
    "rolebindings": ("rbac.authorization.k8s.io", "RoleBinding", True),
    "roles": ("rbac.authorization.k8s.io", "Role", True),
    "mutatingwebhookconfigurations": ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", False),
    "validatingwebhookconfigurations": (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        False,
    ),
    "validatingadmissionpolicies": ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", False),
    "validatingadmissionpolicybindings": (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        False,
    ),
    "customresourcedefinitions": ("apiextensions.k8s.io", "CustomResourceDefinition", False),
    "apiservices": ("apiregistration.k8s.io", "APIService", False),
    "certificatesigningrequests": ("certificates.k8s.io", "CertificateSigningRequest", False),
    "endpointslices": ("discovery.k8s.io", "EndpointSlice", True),
    "ingresses": ("networking.k8s.io", "Ingress", True),
    "networkpolicies": ("networking.k8s.io", "NetworkPolicy", True),
    "runtimeclasses": ("node.k8s.io", "RuntimeClass", False),
    "priorityclasses": ("scheduling.k8s.io", "PriorityClass", False),
    "workloads": ("scheduling.k8s.io", "Workload", True),
    "podgroups": ("scheduling.k8s.io", "PodGroup", True),
    "csidrivers": ("storage.k8s.io", "CSIDriver", False),
    "csinodes": ("storage.k8s.io", "CSINode", False),
    "csistoragecapacities": ("storage.k8s.io", "CSIStorageCapacity", True),
    "storageclasses": ("storage.k8s.io", "StorageClass", False),
    "volumeattachments": ("storage.k8s.io", "VolumeAttachment", False),
    "storageversionmigrations": ("storagemigration.k8s.io", "StorageVersionMigration", False),
    "clusterversions": ("config.openshift.io", "ClusterVersion", False),
    "featuregates": ("config.openshift.io", "FeatureGate", False),
    "clusteroperators": ("config.openshift.io", "ClusterOperator", False),
    "kubeletconfigs": ("machineconfiguration.openshift.io", "KubeletConfig", False),
    "machineconfigs": ("machineconfiguration.openshift.io", "MachineConfig", False),
    "machineconfigpools": ("machineconfiguration.openshift.io", "MachineConfigPool", False),
}
_BY_KIND = {(group, kind): resource for resource, (group, kind, _) in RESOURCES.items()}


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion: ``apps`` of ``apps/v1``, empty of ``v1``."""
    return api_version.rpartition("/")[0]


def resource_name(group: str, kind: str) -> str:
    """Return the resource of a kind in kubectl's spelling: ``pods``, ``resourceslices.resource.k8s.io``.

    Kinds outside :data:`RESOURCES` get the regular English plural, as Kubernetes' own code does.
    """
    plural = _BY_KIND.get((group, kind))
    if plural is None:
        plural = kind.lower()
        if plural.endswith("s"):
            plural += "es"
        elif plural.endswith("y"):
            plural = plural[:-1] + "ies"
        else:
            plural += "s"
    return f"{plural}.{group}" if group else plural


# ------------------------------------------------------------------------------------------------------------ decoding

_MAX_MENDS = 64
_MISMATCH = re.compile(r"^Expected `([^`]*)`, got `(\w+)`(?: - at `\$([^`]*)`)?$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")


_DECODERS: dict[Any, Callable[[Any], Any]] = {}


def _decoder(typ: type[T]) -> Callable[[Any], T]:
    found = _DECODERS.get(typ)
    if found is None:
        found = _DECODERS[typ] = msgspec.json.Decoder(typ).decode
    return found


def _mend(tree: Any, message: str) -> bool:
    """Mend what msgspec complained of where that loses nothing; False: it cannot be."""
    match = _MISMATCH.match(message)
    if match is None:
        return False
    expected, found, path = match[1].split(" | "), match[2], match[3] or ""
    as_text = "str" in expected and found in {"int", "float", "bool"}
    if not as_text and found != "null":
        return False
    # What holds for one element holds for all of its list: they are of one type.
    steps = [step[0] or "..." for step in _STEP.findall(path)]
    return bool(steps) and _mend_at(tree, steps, as_text)


def _mend_at(node: Any, steps: list[str], as_text: bool) -> bool:
    """Walk to the last step and mend there; ``...`` stands for any key of a mapping."""
    step, rest = steps[0], steps[1:]
    keys: list[Any]
    if isinstance(node, dict):
        keys = list(node) if step == "..." else [step] if step in node else []
    elif isinstance(node, list):
        keys = list(range(len(node))) if step == "..." else []
    else:
        return False
    done = False
    for key in reversed(keys):
        value = node[key]
        if rest:
            done |= _mend_at(value, rest, as_text)
        elif as_text and isinstance(value, bool):
            node[key], done = "true" if value else "false", True
        elif as_text and isinstance(value, int | float):
            node[key], done = str(value), True
        elif not as_text and value is None:
            del node[key]
            done = True
    return done


class _Meta(msgspec.Struct, gc=False):
    name: str = ""


class _Named(msgspec.Struct, gc=False):
    metadata: _Meta | None = None


def _name(data: Any) -> str:
    try:
        if isinstance(data, msgspec.Raw):
            named = msgspec.json.decode(data, type=_Named)
        else:
            named = msgspec.convert(data, _Named)
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return named.metadata.name if named.metadata else ""
