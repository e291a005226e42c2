"""Which programs read a feature gate, where it is defined, and the enhancement that its comment names.

Read from the Go sources that a program links. The linked packages of a program hold much that belongs to another one
(the kubelet links parts of the scheduler, the controller manager links the apiserver's storage): such packages count
for their owner only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from tools.kubedata.gomodules import Modules, Package

PROGRAMS = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "cloud-controller-manager": "k8s.io/cloud-provider/app",
    "kubeadm": "k8s.io/kubernetes/cmd/kubeadm",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
# Nodes run Windows too.
ON_WINDOWS = ("kubelet", "kube-proxy")

# A package belongs to these programs alone, whoever else links it; the first prefix that fits decides.
OWNERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("k8s.io/kubernetes/cmd/kube-apiserver", ("kube-apiserver",)),
    ("k8s.io/kubernetes/cmd/kube-controller-manager", ("kube-controller-manager",)),
    ("k8s.io/kubernetes/cmd/kube-scheduler", ("kube-scheduler",)),
    ("k8s.io/kubernetes/cmd/kubelet", ("kubelet",)),
    ("k8s.io/kubernetes/cmd/kube-proxy", ("kube-proxy",)),
    ("k8s.io/kubernetes/pkg/registry", ("kube-apiserver",)),
    ("k8s.io/kubernetes/pkg/controlplane", ("kube-apiserver",)),
    ("k8s.io/kubernetes/pkg/kubeapiserver", ("kube-apiserver",)),
    ("k8s.io/kubernetes/plugin/pkg/auth", ("kube-apiserver",)),
    ("k8s.io/kubernetes/plugin/pkg/admission", ("kube-apiserver",)),
    ("k8s.io/kubernetes/pkg/api/", ("kube-apiserver", "kubelet")),
    ("k8s.io/kubernetes/pkg/apis/", ("kube-apiserver", "kubelet")),
    ("k8s.io/kubernetes/pkg/scheduler", ("kube-scheduler",)),
    ("k8s.io/kubernetes/pkg/kubelet", ("kubelet",)),
    ("k8s.io/kubernetes/pkg/proxy", ("kube-proxy",)),
    ("k8s.io/kubernetes/pkg/controller", ("kube-controller-manager",)),
    ("k8s.io/apiserver/pkg", ("kube-apiserver",)),
    ("k8s.io/apiextensions-apiserver", ("kube-apiserver",)),
    ("k8s.io/kube-aggregator", ("kube-apiserver",)),
)

_IMPORT = re.compile(r'^\s*(?:import\s+)?(\w+|\.|_)?\s*"([^"]+)"', re.MULTILINE)
_KEP = re.compile(
    r"kep\.k8s\.io/(\d+)|KEP-(\d+)|enhancements/(?:issues|pull|blob/\S*?/|tree/\S*?/)(\d+)|keps/sig-[\w-]+/(\d+)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"//.*")


@dataclass
class Sources:
    """What the sources of one release say about its gates."""

    readers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    definitions: dict[str, str] = field(default_factory=dict)
    proposals: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def components(self, gate: str) -> list[str]:
        """Programs that read a gate, in the order of `PROGRAMS`."""
        return [name for name in PROGRAMS if name in self.readers.get(gate, ())]

    def defined_in(self, gate: str) -> str:
        """Import path of the package that defines it; empty for AllAlpha and AllBeta."""
        return self.definitions.get(gate, "")

    def keps(self, gate: str) -> list[int]:
        """Enhancements that the comment above its definition names."""
        return sorted(self.proposals.get(gate, ()))


def scan(modules: Modules) -> Sources:
    """Reads the sources of every program of a release.

    Raises SystemExit where the five components would not register the same gates: the data holds one table for all,
    asked of a binary that links them together.
    """
    linked: dict[str, dict[str, Package]] = {name: modules.packages(root) for name, root in PROGRAMS.items()}
    for name in ON_WINDOWS:
        for path, package in modules.packages(PROGRAMS[name], system="windows").items():
            known = linked[name].get(path)
            files = sorted({*package.files, *(known.files if known else ())})
            linked[name][path] = Package(path=path, folder=package.folder, files=tuple(files))
    packages: dict[str, Package] = {}
    for found in linked.values():
        for path, package in found.items():
            known = packages.get(path)
            if known is None or len(known.files) < len(package.files):
                packages[path] = package
    texts = {
        (path, name): (package.folder / name).read_text(encoding="utf-8")
        for path, package in packages.items()
        for name in package.files
    }
    _same_registrations(linked, texts)
    sources = Sources()
    constants = _definitions(texts, sources)
    uses = _uses(texts, constants)
    for gate, paths in uses.items():
        for program, found in linked.items():
            if any(path in found and program in _owners(path, program) for path in paths):
                sources.readers[gate].add(program)
    return sources


def _same_registrations(linked: dict[str, dict[str, Package]], texts: dict[tuple[str, str], str]) -> None:
    registering: dict[str, set[str]] = {}
    for (path, _), text in texts.items():
        if path.endswith("/testing") or "eatureGate" not in text:
            continue
        body = _COMMENT.sub("", text)
        found = registering.setdefault(path, set())
        if "DefaultMutableFeatureGate.Add(" in body or "DefaultMutableFeatureGate.AddVersioned(" in body:
            found.add(path)
        imports = _imports(text)
        for match in re.finditer(r"\b(\w+)\.Add(?:Versioned)?Feature\w*\((?!f )", body):
            if match[1] in imports:
                found.add(imports[match[1]])
    tables = {
        program: {target for path in linked[program] for target in registering.get(path, ())}
        for program in COMPONENTS
    }
    if len({frozenset(table) for table in tables.values()}) != 1:
        raise SystemExit(f"the components register different gates: {tables}")


def _owners(path: str, program: str) -> tuple[str, ...]:
    for prefix, owners in OWNERS:
        if path.startswith(prefix):
            return owners
    return (program,)


def _definitions(texts: dict[tuple[str, str], str], sources: Sources) -> dict[str, dict[str, str]]:
    """Package → constant → gate, for every package that defines gates."""
    constants: dict[str, dict[str, str]] = defaultdict(dict)
    for (path, _), text in texts.items():
        if "Feature" not in text or not _defines_gates(path, text):
            continue
        for match in re.finditer(r'^\s*(\w+)\s+(?:\w+\.)?Feature\s*=\s*"(\w+)"', text, re.MULTILINE):
            constant, gate = match[1], match[2]
            constants[path][constant] = gate
            sources.definitions[gate] = path
            for found in _KEP.finditer(_comment_above(text, match.start())):
                sources.proposals[gate].add(int(next(number for number in found.groups() if number)))
    # Constants that stand for a constant of another package, untyped ones included.
    for (path, _), text in texts.items():
        for match in re.finditer(r"^\s*(\w+)\s+(?:\w+\.)?Feature\s*=\s*(\w+)\.(\w+)$", text, re.MULTILINE):
            target = _imports(text).get(match[2])
            if target in constants and match[3] in constants[target]:
                constants[path][match[1]] = constants[target][match[3]]
    return constants


def _defines_gates(path: str, text: str) -> bool:
    return "featuregate" in text or path == "k8s.io/client-go/features"


def _comment_above(text: str, position: int) -> str:
    lines = text[:position].rstrip("\n").split("\n")
    comment = []
    for line in reversed(lines):
        if not line.strip().startswith("//"):
            break
        comment.append(line)
    return "\n".join(comment)


def _imports(text: str) -> dict[str, str]:
    """Name in this file → import path."""
    end = text.find("\nfunc ")
    head = text[: end if end > 0 else len(text)]
    return {match[1] or match[2].rsplit("/", 1)[-1]: match[2] for match in _IMPORT.finditer(head)}


def _uses(texts: dict[tuple[str, str], str], constants: dict[str, dict[str, str]]) -> dict[str, set[str]]:
    """Gate → packages whose code names it, other than to define or to describe it."""
    uses: dict[str, set[str]] = defaultdict(set)
    for (path, _), text in texts.items():
        body = _COMMENT.sub("", text)
        for alias, target in _imports(text).items():
            if target not in constants or alias in {"_", "."}:
                continue
            for match in re.finditer(rf"\b{alias}\.(\w+)\b", body):
                gate = constants[target].get(match[1])
                if gate is not None:
                    uses[gate].add(path)
        if path in constants and not path.endswith("/features"):
            for constant, gate in constants[path].items():
                # Its definition and its entry in the table of specs are no uses.
                if len(re.findall(rf"\b{constant}\b(?!\s*:|\s+(?:\w+\.)?Feature\s*=)", body)) > 0:
                    uses[gate].add(path)
    return uses
