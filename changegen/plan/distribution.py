"""How each distribution changes its control plane and its nodes: data files and their loader.

The files hold commands and file locations, no words: the words are in the code, so that they can be translated.
Commands are format strings; their fields are filled by `changegen.plan.scene`, every value quoted for a shell.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Literal

import msgspec

__all__ = ["Distribution", "Template", "distribution"]


class Template(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command whose fields stand in braces: node, version, backup and so on."""

    text: str
    where: str = ""
    runs: Literal["read", "write"] = "read"
    wait: int = 0
    """Seconds within which it must succeed, asked every five; 0: at once."""


class Distribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One data file."""

    name: str
    title: str = ""
    control_plane: Literal["one-by-one", "one-command"]
    """one-by-one: a step a control-plane node · one-command: the distribution goes through them itself."""
    nodes: Literal["drain-each", "pool", "pool-all", "by-control-plane"]
    """by-control-plane: the control plane's command moves the kubelets too."""
    etcd: Literal["kubeadm", "bundled", "os", "hidden"]
    """kubeadm: kubeadm's table names the version · bundled: comes with the release · os: comes with the operating
    system, a Kubernetes upgrade leaves it · hidden: nobody but the provider sees it."""
    downgrade: Literal["computed", "restore", "one-way"]
    """computed: binaries can go back, subject to etcd and storage · restore: only with an etcd snapshot ·
    one-way: the distribution or provider has no way back."""
    patch: Literal["named", "provider"] = "named"
    """provider: asked for a minor, the provider takes a patch release of its own; the plan then names none."""
    pool_label: str = ""
    """Node label that names the node group."""
    pool_back: Literal["", "same", "new"] = ""
    """How a node group goes back: the same group to an older version, or only a new group beside it."""
    kubelet_with_control_plane: bool = False
    """One process is control plane and kubelet: control-plane nodes are not drained apart."""
    paths: dict[str, str] = {}
    packages: dict[str, dict[str, tuple[Template, ...]]] = {}
    """Tool -> family of the operating system (debian, redhat, other) -> commands."""
    commands: dict[str, tuple[Template, ...]] = {}
    rollback: dict[str, tuple[Template, ...]] = {}
    variables: dict[str, str] = {}
    """Shell variables that the commands use and people must set, with what they mean."""


@lru_cache(maxsize=1)
def _aliases() -> dict[str, str]:
    text = (files("changegen") / "data" / "distributions" / "aliases.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, str])


@lru_cache(maxsize=32)
def distribution(name: str, *, managed: bool = False) -> Distribution:
    """The data of a distribution; what has no file of its own is treated as ``generic``.

    A control plane that its provider runs has no way back that is not written down: no files of it can be put back.
    """
    known = name.lower()
    known = _aliases().get(known, known)
    folder = files("changegen") / "data" / "distributions"
    path = folder / f"{known}.json"
    if "/" in known or known == "aliases" or not path.is_file():
        path = folder / "generic.json"
    found = msgspec.json.decode(path.read_bytes(), type=Distribution)
    written = any(item.runs == "write" for item in found.rollback.get("control-plane", ()))
    if managed and found.downgrade == "computed" and not written:
        return msgspec.structs.replace(found, downgrade="one-way")
    return found
