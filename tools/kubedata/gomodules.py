"""The Go modules of one Kubernetes release: their files, hashes, date, and the packages that a program links."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.controlplane import build


@dataclass(frozen=True)
class Package:
    """A Go package with the files that are built for a system."""

    path: str
    folder: Path
    files: tuple[str, ...]


class Modules:
    """The modules that tests/controlplane pins for a release."""

    def __init__(self, version: str) -> None:
        self.version = version

    def _go(self, *arguments: str, system: str = "linux") -> str:
        done = subprocess.run(
            ["go", *arguments],
            cwd=build.GO_DIR,
            env={
                **os.environ,
                "GOTOOLCHAIN": build.toolchain(),
                "CGO_ENABLED": "0",
                "GOWORK": "off",
                "GOOS": system,
                "GOFLAGS": "-mod=readonly -buildvcs=false",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"go {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    @property
    def _pin(self) -> str:
        return f"-modfile=k8s-{self.version}.mod"

    @cached_property
    def _info(self) -> dict[str, Any]:
        told = self._go("mod", "download", "-json", f"k8s.io/kubernetes@v{self.version}")
        return dict(json.loads(told))

    @cached_property
    def folder(self) -> Path:
        """Where the files of k8s.io/kubernetes are."""
        return Path(self._info["Dir"])

    def date(self) -> str:
        """Day of the release's tag."""
        return str(json.loads(Path(self._info["Info"]).read_text(encoding="utf-8"))["Time"])[:10]

    def go_version(self) -> str:
        """Go release that this Kubernetes release is built with."""
        return (self.folder / ".go-version").read_text(encoding="utf-8").strip()

    @cached_property
    def _sums(self) -> dict[str, tuple[str, str]]:
        found = {}
        for line in (build.GO_DIR / f"k8s-{self.version}.sum").read_text(encoding="utf-8").splitlines():
            path, version, digest = line.split()
            if not version.endswith("/go.mod"):
                found[path, version] = digest
        staging = "v0." + self.version.split(".", 1)[1]
        wanted = (f"v{self.version}", staging)
        return {path: (version, digest) for (path, version), digest in found.items() if version in wanted}

    def pinned(self, path: str) -> dict[str, str]:
        """Path, version and hash of a module, as the .sum file has them."""
        version, digest = self._sums[path]
        return {"path": path, "version": version, "sum": digest}

    def packages(self, root: str, system: str = "linux") -> dict[str, Package]:
        """Every Kubernetes package that a program links, by import path.

        The pinned modules lack some that only Windows needs; the go command goes on without them.
        """
        form = '{{if not .Standard}}{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles ","}}{{end}}'
        found = {}
        for line in self._go("list", "-e", self._pin, "-deps", "-f", form, root, system=system).splitlines():
            path, folder, files = line.split("\t")
            if path.startswith("k8s.io/"):
                names = tuple(name for name in files.split(",") if name)
                found[path] = Package(path=path, folder=Path(folder), files=names)
        return found

    def run(self, folder: Path) -> Any:
        """What a program of the project prints when it is linked with this release: JSON.

        Args:
            folder: Where its Go files are; they may import what the pinned modules have.
        """
        # Paths are trimmed as tests/controlplane/build.py does, so that the packages built there serve here.
        files = sorted(str(path) for path in folder.glob("*.go"))
        return json.loads(self._go("run", "-trimpath", self._pin, *files))

    def discovery(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """Resources of the release's own recorded discovery (api/discovery), with every API on, by kind."""
        found = {}
        for path in sorted((self.folder / "api" / "discovery").glob("api*__*.json")):
            listing = json.loads(path.read_text(encoding="utf-8"))
            if listing.get("kind") != "APIResourceList":
                continue
            group, _, version = listing["groupVersion"].rpartition("/")
            for resource in listing["resources"]:
                if "/" in resource["name"]:
                    continue
                found[group, version, resource["kind"]] = {
                    "resource": resource["name"],
                    "namespaced": resource["namespaced"],
                }
        return found
