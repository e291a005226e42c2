"""Builds the control plane binary of a Kubernetes version into a cache folder outside the tree.

The Go sources in ``go/`` are one program; ``go/k8s-VERSION.mod`` (and ``.sum``) pin one release each.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

GO_DIR = Path(__file__).resolve().parent / "go"
CACHE_VARIABLE = "CHANGEGEN_CONTROLPLANE_CACHE"
REQUIRED_VARIABLE = "CHANGEGEN_CONTROLPLANE_REQUIRED"
TOOLCHAIN_VARIABLE = "CHANGEGEN_CONTROLPLANE_TOOLCHAIN"
TOOLCHAIN = "go1.27.3"
BINARY = "controlplane"

PROGRAMS = (
    "etcd",
    "etcdctl",
    "etcdutl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubeadm",
    "kubectl",
    "kubemark",
    "hollow-kubelet",
    "kubedata",
)

# Built for its data only: its clusters are never started.
DATA_ONLY = ("1.34.4",)


class BuildError(RuntimeError):
    """The Go build failed, or Go is missing; the message has the compiler's words."""


def versions() -> list[str]:
    """Every Kubernetes version that has a module here, oldest first."""
    found = [path.name.removeprefix("k8s-").removesuffix(".mod") for path in GO_DIR.glob("k8s-*.mod")]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def cluster_versions() -> list[str]:
    """The versions whose clusters the tests start."""
    return [version for version in versions() if version not in DATA_ONLY]


def cache_root() -> Path:
    """The folder that binaries are kept in; ``CHANGEGEN_CONTROLPLANE_CACHE`` replaces the default."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "changegen-controlplane"


def source_hash(version: str) -> str:
    """Digest of everything that decides the binary of ``version``: sources, module pins, toolchain."""
    digest = hashlib.sha256(toolchain().encode())
    pins = [GO_DIR / f"k8s-{version}.mod", GO_DIR / f"k8s-{version}.sum"]
    for path in [*sorted(GO_DIR.glob("*.go")), *pins]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def toolchain() -> str:
    """The Go toolchain that is asked for (the go command fetches it when it is another one)."""
    return os.environ.get(TOOLCHAIN_VARIABLE, TOOLCHAIN)


def binary_dir(version: str) -> Path:
    """The folder of the binary of ``version``, and of one link a program; it may not exist yet."""
    return cache_root() / f"{version}-{source_hash(version)}"


def etcd_version(version: str) -> str:
    """The etcd release that the module of a Kubernetes version has."""
    text = (GO_DIR / f"k8s-{version}.mod").read_text(encoding="utf-8")
    found = re.search(r"go\.etcd\.io/etcd/server/v3 v(\S+)", text)
    assert found is not None
    return found[1]


def version_of_image(image: str) -> str:
    """The Kubernetes version whose binary is the component of a control-plane image; raises BuildError."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    for version in versions():
        if tag == f"v{version}" or (name == "etcd" and tag.partition("-")[0] == etcd_version(version)):
            return version
    raise BuildError(f"no module has the component of {image}")


def is_built(version: str) -> bool:
    """Whether the binary for the present sources is in the cache."""
    return version in versions() and (binary_dir(version) / "kubedata").exists()


def missing_reason(version: str) -> str | None:
    """Why the binary of ``version`` cannot be had without a build, or None when it is there."""
    if version not in versions():
        return f"tests/controlplane/go has no module for Kubernetes {version}"
    if is_built(version):
        return None
    if shutil.which("go") is None:
        return f"Go is not installed, and no Kubernetes {version} binary is in {cache_root()}"
    return f"Kubernetes {version} is not built: python -m tests.controlplane build --version {version}"


def required() -> bool:
    """Whether tests that cannot have their binaries are to fail instead of being skipped."""
    return os.environ.get(REQUIRED_VARIABLE, "") not in {"", "0"}


def _environment() -> dict[str, str]:
    return {**os.environ, "GOTOOLCHAIN": toolchain(), "CGO_ENABLED": "0", "GOWORK": "off"}


def _go(arguments: Iterable[str], *, flags: str) -> str:
    go = shutil.which("go")
    if go is None:
        raise BuildError("Go is not installed")
    done = subprocess.run(
        [go, *arguments],
        cwd=GO_DIR,
        env={**_environment(), "GOFLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"go {' '.join(arguments)}: exit {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def _check_go() -> None:
    # Older ones neither read the module files nor fetch another toolchain.
    found = re.search(r"go(\d+)\.(\d+)", _go(["version"], flags=""))
    if found is None or (int(found[1]), int(found[2])) < (1, 21):
        raise BuildError("Go 1.21 or newer is needed; it fetches the right toolchain itself")


def build(version: str, *, update_modules: bool = False) -> Path:
    """Build the binary of ``version`` unless it is there, and return its folder.

    ``update_modules`` lets the go command complete the .mod and .sum files (after a new import or a new version).
    Two builds of one version wait for each other. Raises BuildError.
    """
    if version not in versions():
        raise BuildError(f"no module for Kubernetes {version}: have {', '.join(versions())}")
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / f".{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_built(version) and not update_modules:
            return binary_dir(version)
        _check_go()
        working = cache_root() / f".building-{version}-{os.getpid()}"
        working.mkdir(parents=True, exist_ok=True)
        try:
            _compile(version, working / BINARY, "mod" if update_modules else "readonly")
            for program in PROGRAMS:
                (working / program).symlink_to(BINARY)
            target = binary_dir(version)
            shutil.rmtree(target, ignore_errors=True)
            working.rename(target)
        finally:
            shutil.rmtree(working, ignore_errors=True)
        _drop_older(version, keep=target)
        return target


def _compile(version: str, output: Path, mod: str) -> None:
    major, minor, _ = version.split(".")
    package = "k8s.io/component-base/version"
    # The commit and date are unknown here, and would make builds differ.
    stamps = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    ldflags = " ".join(["-s", "-w", *(f"-X {package}.{key}={value}" for key, value in stamps.items())])
    _go(
        [
            "build",
            f"-modfile=k8s-{version}.mod",
            f"-tags=k8s{major}_{minor}",
            "-trimpath",
            "-ldflags",
            ldflags,
            "-o",
            str(output),
            ".",
        ],
        flags=f"-mod={mod} -buildvcs=false",
    )


def _drop_older(version: str, keep: Path) -> None:
    # Each binary has some 160 MB; a day's grace leaves those that another checkout uses.
    for path in cache_root().glob(f"{version}-*"):
        if path != keep and time.time() - path.stat().st_mtime > 86400:
            shutil.rmtree(path, ignore_errors=True)


def write_module(version: str) -> Path:
    """Write ``go/k8s-VERSION.mod`` from the release's own go.mod: its staging modules and its etcd.

    Asks the module proxy through the go command. Raises BuildError for an unknown release.
    """
    found = json.loads(_go(["mod", "download", "-json", f"k8s.io/kubernetes@v{version}"], flags="-mod=mod"))
    upstream = Path(found["GoMod"]).read_text(encoding="utf-8")
    staged = re.findall(r"^\s*(\S+) => \./staging/", upstream, re.MULTILINE)
    etcd = re.search(r"^\s*go\.etcd\.io/etcd/server/v3 (\S+)", upstream, re.MULTILINE)
    go_version = re.search(r"^go (\S+)", upstream, re.MULTILINE)
    debug = re.search(r"^godebug (default=\S+)", upstream, re.MULTILINE)
    if not staged or etcd is None or go_version is None:
        raise BuildError(f"the go.mod of Kubernetes {version} has another shape than expected")
    staging_version = "v0." + version.split(".", 1)[1]
    lines = ["module changegen.test/controlplane", "", f"go {go_version[1]}", ""]
    if debug is not None:
        lines += [f"godebug {debug[1]}", ""]
    lines += ["require (", f"\tk8s.io/kubernetes v{version}"]
    lines += [f"\tgo.etcd.io/etcd/{name}/v3 {etcd[1]}" for name in ("etcdctl", "etcdutl", "server")]
    lines += [")", "", "replace ("]
    lines += [f"\t{module} => {module} {staging_version}" for module in staged]
    lines += [")", ""]
    path = GO_DIR / f"k8s-{version}.mod"
    path.write_text("\n".join(lines), encoding="utf-8")
    path.with_suffix(".sum").touch()
    return path
