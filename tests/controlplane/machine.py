"""A node as a machine: commands whose root folder is the node's, with the programs of this machine beside its files.

kubeadm's paths (/etc/kubernetes, /var/lib/etcd, /var/lib/kubelet) are constants, so that it runs on a node only where
that node's files are the root: in a mount namespace of its own, by root or with a user namespace. ``apt-get`` and its kin, ``crictl`` and ``systemctl``
are stand-ins of a few lines; everything else is real.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.controlplane import build

_TOOLS = {
    "sudo": 'exec "$@"',
    # The kernel of the machine that tests is not the node's.
    "kubeadm": """\
case "$1 $2 $3" in
"upgrade node phase") ;;
"upgrade plan"*|"upgrade apply"*|"upgrade node"*) set -- "$@" --ignore-preflight-errors=SystemVerification ;;
esac
exec /opt/bin/kubeadm "$@"
""",
    # What the repository's list does not name is not found, as with the real one.
    "apt-mark": "exit 0",
    "apt-cache": """\
for package in /opt/packages/*; do
  version=${package##*/}
  place=$(grep -ho "https://[^ ]*/v${version%.*}/[^ ]*" /etc/apt/sources.list.d/*.list) &&
    echo " $2 | $version-1.1 | $place Packages"
done
exit 0""",
    "apt-get": """\
[ "$1" = install ] || exit 0
for word; do
  case $word in *=*) ;; *) continue ;; esac
  name=${word%%=*} version=${word#*=}
  version=${version%-*}
  if ! grep -qh "/v${version%.*}/" /etc/apt/sources.list.d/*.list || [ ! -e "/opt/packages/$version" ]; then
    echo "E: Version '${word#*=}' for '$name' was not found" >&2
    exit 100
  fi
  ln -sfn "/opt/packages/$version/$name" "/opt/bin/$name"
done""",
    # crictl ps -q --name PATTERN, of the real processes.
    "crictl": 'grep -E "$4" /run/running || true',
    # Processes are those of the machine that tests: what is asked for by name must not be found, or ended, there.
    "pgrep": "exit 1",
    "pkill": 'echo "pkill $*: this is no node" >&2; exit 1',
    "systemctl": """\
case "$*" in
daemon-reload) ;;
"restart kubelet") echo "$*" >>/run/systemctl ;;
*) echo "systemctl: $*: no stand-in" >&2; exit 1 ;;
esac""",
}

# The machine's own folders; what is a link there (/bin to usr/bin) is one here too.
_SHARED = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "dev", "proc", "sys")

_ENTER = """\
root=$1; packages=$2; runtime=$3; folders=$4; shift 4
for folder in $folders; do
  [ ! -d "/$folder" ] || [ -L "/$folder" ] || mount --rbind "/$folder" "$root/$folder"
done
mount --bind "$packages" "$root/opt/cache"
[ ! -e "$runtime" ] || mount --bind "$runtime" "$root/run/containerd/containerd.sock"
exec chroot "$root" "$@"
"""


@functools.cache
def impossible() -> str | None:
    """Why a node cannot be a machine here (no Linux, no namespaces), or None when it can."""
    if sys.platform != "linux" or not all(map(shutil.which, ("unshare", "mount", "chroot"))):
        return "a node as a machine needs Linux with unshare, mount and chroot"
    tried = subprocess.run([*_namespace(), "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"a node as a machine needs root or user namespaces: {tried.stderr.strip()}"
    return None


def _namespace() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount"]


class Machine:
    """One node whose files are below ``home``; ``runtime`` is the socket of its container runtime."""

    def __init__(self, home: Path, runtime: Path) -> None:
        self.home = home
        self._runtime = runtime
        for folder in _SHARED:
            place, own = Path("/", folder), home / folder
            if place.is_symlink():
                own.unlink(missing_ok=True)
                own.symlink_to(place.readlink())
            elif place.is_dir():
                own.mkdir(parents=True, exist_ok=True)
        for folder in ("tmp", "root", "opt/bin", "opt/cache", "opt/packages", "opt/tools", "run/containerd"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        # kubeadm mounts what it finds of these.
        for folder in ("etc/ca-certificates", "etc/pki"):
            if Path("/", folder).is_dir():
                (home / folder).mkdir(parents=True, exist_ok=True)
        for folder in ("etc/apt/sources.list.d", "var/backups", "var/lib/kubelet"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        (home / "run" / "containerd" / "containerd.sock").touch()
        if not (home / "var" / "run").is_symlink():
            (home / "var" / "run").symlink_to("/run")
        for name, text in _TOOLS.items():
            tool = home / "opt" / "tools" / name
            tool.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            tool.chmod(0o755)
        for version in build.cluster_versions():
            package = home / "opt" / "packages" / version
            if build.is_built(version) and not package.is_symlink():
                package.symlink_to(Path("/opt/cache", build.binary_dir(version).name))

    def install(self, version: str, *programs: str) -> None:
        """Have ``programs`` of one version, and a repository of its minor."""
        minor = version.rpartition(".")[0]
        (self.home / "etc/apt/sources.list.d/kubernetes.list").write_text(
            f"deb https://packages.example.com/core:/stable:/v{minor}/deb/ /\n", encoding="utf-8"
        )
        for program in programs:
            link = self.home / "opt" / "bin" / program
            link.unlink(missing_ok=True)
            link.symlink_to(f"/opt/packages/{version}/{program}")

    def installed(self, program: str) -> str:
        """The version of ``program`` that is installed."""
        return (self.home / "opt" / "bin" / program).readlink().parent.name

    def show(self, running: Iterable[str]) -> None:
        """Say which components run here (crictl ps)."""
        (self.home / "run" / "running").write_text("".join(f"{name}\n" for name in running), encoding="utf-8")

    def restarts(self) -> int:
        """How often the kubelet was to be restarted since this was asked last."""
        asked = self.home / "run" / "systemctl"
        count = len(asked.read_text(encoding="utf-8").splitlines()) if asked.exists() else 0
        asked.unlink(missing_ok=True)
        return count

    def start(self, text: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a line of shell as root of this machine; both its outputs are one pipe."""
        return subprocess.Popen(
            [*self.entry(env), text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def entry(self, env: Mapping[str, str] | None = None) -> list[str]:
        """The command to which a line of shell is added, to be run as root of this machine."""
        path = "/opt/tools:/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return [
            *_namespace(),
            *("sh", "-ec", _ENTER, "enter", str(self.home), str(build.cache_root())),
            *(str(self._runtime), " ".join(_SHARED)),
            *("/usr/bin/env", "-i", f"PATH={path}", "HOME=/root", "LANG=C.UTF-8"),
            *(f"{name}={value}" for name, value in (env or {}).items()),
            *("/bin/sh", "-c"),
        ]
