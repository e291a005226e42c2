"""OpenShift's MachineConfigs: the kubelet's configuration file of the one that a node is on.

The Machine Config Operator renders one MachineConfig for each pool and names it in the node's annotation
``machineconfiguration.openshift.io/currentConfig``. Its file /etc/kubernetes/kubelet.conf is a KubeletConfiguration with
the feature gates of FeatureGate/cluster in it; a KubeletConfig may not name gates (machine-config-operator,
pkg/controller/kubelet-config/helpers.go, validateUserKubeletConfig). A MachineConfig holds other files too, a pull secret
among them: nothing but this one file is decoded, and a live reading does not ask for MachineConfigs at all.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from changegen.collect import wire
from changegen.collect.configmaps import gate_source_of_map
from changegen.collect.inventory import Inventory
from changegen.collect.yamlread import read_yaml
from changegen.i18n import tr
from changegen.model.snapshot import GateSource, Unobserved

__all__ = ["CURRENT_CONFIG", "machine_config_gates"]

CURRENT_CONFIG: Final = "machineconfiguration.openshift.io/currentConfig"
KUBELET_FILE: Final = "/etc/kubernetes/kubelet.conf"
MAX_FILE_BYTES: Final = 2**20
"""A kubelet's configuration above this is refused; real ones take a few KiB."""


def machine_config_gates(
    inventory: Inventory, nodes: Iterable[wire.Node]
) -> tuple[dict[str, GateSource], tuple[Unobserved, ...]]:
    """Return MachineConfig -> gates of its kubelet file, for those that a node is on, and what could not be read of them."""
    wanted = {(node.metadata.annotations or {}).get(CURRENT_CONFIG, "") for node in nodes} - {""}
    found: dict[str, GateSource] = {}
    missing: list[Unobserved] = []
    if not wanted:
        return found, ()
    for located in inventory.all("machineconfigs.machineconfiguration.openshift.io", wire.Custom):
        name = located.obj.metadata.name
        if name not in wanted:
            continue
        contents = _kubelet_file(located.obj.spec or {})
        if contents is None:
            continue
        place = f"MachineConfig {name} {KUBELET_FILE}"
        try:
            config = _config(_decoded(contents))
        except ValueError as error:
            missing.append(Unobserved(what=place, reason="malformed", detail=str(error), place=located.place))
            continue
        found[name] = gate_source_of_map(
            config.get("featureGates"), provenance="custom resource", place=place, certainty="intended"
        )
    return found, tuple(missing)


def _kubelet_file(spec: dict[str, Any]) -> dict[str, Any] | None:
    """Return ``contents`` of the kubelet's file in an Ignition configuration; of several the last, which is written last."""
    config = spec.get("config")
    storage = config.get("storage") if isinstance(config, dict) else None
    files = storage.get("files") if isinstance(storage, dict) else None
    last: dict[str, Any] | None = None
    for file in files if isinstance(files, list) else ():
        if isinstance(file, dict) and file.get("path") == KUBELET_FILE:
            contents = file.get("contents")
            last = contents if isinstance(contents, dict) else {}
    return last


def _decoded(contents: dict[str, Any]) -> bytes:
    """Return the bytes of Ignition's ``contents``: a data URL, perhaps packed with gzip.

    Raises:
        ValueError: it is none, or is damaged or too large.
    """
    source = contents.get("source")
    if not isinstance(source, str) or not source.startswith("data:"):
        raise ValueError(tr("its contents are no data URL"))
    head, comma, body = source.partition(",")
    if not comma or len(body) > 4 * MAX_FILE_BYTES:
        raise ValueError(tr("its contents are no data URL, or too long"))
    data = unquote_to_bytes(body)
    if head.endswith(";base64"):
        try:
            data = base64.b64decode(data, validate=False)
        except binascii.Error as error:
            raise ValueError(tr("it is no base64: {problem}", problem=str(error))) from None
    if contents.get("compression") == "gzip":
        try:
            data = zlib.decompressobj(wbits=31).decompress(data, MAX_FILE_BYTES + 1)
        except zlib.error as error:
            raise ValueError(tr("the gzip file is damaged: {problem}", problem=str(error))) from None
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(tr("larger than {n} MiB", n=MAX_FILE_BYTES // 2**20))
    return data


def _config(data: bytes) -> dict[str, Any]:
    for document in read_yaml(data.decode("utf-8", errors="replace")):
        if document.trouble is not None:
            raise ValueError(document.trouble.detail)
        if isinstance(document.value, dict):
            return document.value
    raise ValueError(tr("it is no mapping"))
