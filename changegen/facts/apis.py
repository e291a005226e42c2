"""Facts of the API server: version, readiness, gates, served APIs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from changegen.facts.base import (
    RAW,
    Args,
    Fact,
    Reading,
    arg,
    for_items,
    kubectl_get,
    lacking,
    printed_nothing,
    read_rows,
    seen_in,
    unknown,
)
from changegen.i18n import tr
from changegen.model.snapshot import ProcessFact, Snapshot
from changegen.shell import quoted


def _server_version_parse(output: str, _args: Args) -> Reading:
    try:
        answer = json.loads(output)
    except ValueError:
        return printed_nothing()
    version = answer.get("gitVersion") if isinstance(answer, dict) else None
    return Reading(value=version) if version else printed_nothing()


def _server_version(snapshot: Snapshot, _args: Args) -> Reading:
    version = snapshot.cluster.server_version
    if not version:
        return unknown(tr("/version was not read"))
    return Reading(value=version, evidence=(seen_in("/version", "gitVersion", version, "version"),))


def _readyz_value(checks: Mapping[str, bool]) -> str:
    failed = sorted(name for name, good in checks.items() if not good)
    return "failed: " + ", ".join(failed) if failed else "ok"


def _readyz_parse(output: str, _args: Args) -> Reading:
    checks = {match[2]: match[1] == "+" for match in re.finditer(r"^\[([+-])\](\S+)", output, re.MULTILINE)}
    return Reading(value=_readyz_value(checks)) if checks else printed_nothing()


def _readyz(snapshot: Snapshot, _args: Args) -> Reading:
    readings = [process for process in snapshot.processes if process.readyz]
    if not readings:
        return unknown(tr("/readyz was not read"))
    checks: dict[str, bool] = {}
    for process in readings:
        for name, good in process.readyz.items():
            checks[name] = good and checks.get(name, True)
    value = _readyz_value(checks)
    return Reading(value=value, evidence=(seen_in(readings[0].place, "readyz", value, "api object"),))


def _apiservers(snapshot: Snapshot) -> list[ProcessFact]:
    return [process for process in snapshot.processes if process.component == "kube-apiserver"]


_STATES = {True: "on", False: "off", None: "not known to it"}


def _gate_command(args: Args) -> str:
    name = re.escape(arg(args, "gate"))
    pattern = rf'^kubernetes_build_info\{{|^kubernetes_feature_enabled\{{name="{name}",'
    return f"{RAW}/metrics | grep -E {quoted(pattern)}"


def _gate_parse(output: str, args: Args) -> Reading:
    if "kubernetes_build_info{" not in output:
        return printed_nothing()
    match = re.search(
        rf'^kubernetes_feature_enabled\{{name="{re.escape(arg(args, "gate"))}",[^}}]*\}} (\S+)',
        output,
        re.MULTILINE,
    )
    return Reading(value=_STATES[float(match[1]) != 0 if match else None])


def _gate(snapshot: Snapshot, args: Args) -> Reading:
    gate = arg(args, "gate")
    found = {
        process.place: process.effective_gates.get(gate)
        for process in _apiservers(snapshot)
        if process.effective_gates is not None
    }
    if not found:
        return unknown(tr("metrics of kube-apiserver were not read"))
    states = {_STATES[state] for state in found.values()}
    value = states.pop() if len(states) == 1 else "differs between instances"
    evidence = tuple(seen_in(place, gate, _STATES[state], "metric") for place, state in sorted(found.items()))
    return Reading(value=value, evidence=evidence)


def _group_command(args: Args) -> str:
    pattern = '"kind":"APIGroupList"|"groupVersion":"' + re.escape(arg(args, "group_version")) + '"'
    return f"{RAW}/apis | grep -oE {quoted(pattern)} | sort -u"


def _group_parse(output: str, args: Args) -> Reading:
    if '"kind":"APIGroupList"' not in output:
        return printed_nothing()
    return Reading(value="yes" if f'"groupVersion":"{arg(args, "group_version")}"' in output else "no")


def _group(snapshot: Snapshot, args: Args) -> Reading:
    wanted = arg(args, "group_version")
    if not snapshot.apis:
        return unknown(tr("the list of served APIs was not read"))
    value = "yes" if any(api.group_version == wanted for api in snapshot.apis) else "no"
    return Reading(value=value, evidence=(seen_in("/apis", wanted, value, "discovery"),))


def _resource_command(args: Args) -> str:
    group_version = arg(args, "group_version")
    path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    pattern = 'APIResourceList|NotFound|"name":"' + re.escape(arg(args, "resource")) + '"'
    return f"{RAW}{quoted(path)} 2>&1 | grep -oE {quoted(pattern)} | sort -u"


def _resource_parse(output: str, args: Args) -> Reading:
    if f'"name":"{arg(args, "resource")}"' in output:
        return Reading(value="yes")
    if "APIResourceList" in output or "NotFound" in output:
        return Reading(value="no")
    return printed_nothing()


def _resource(snapshot: Snapshot, args: Args) -> Reading:
    wanted, resource = arg(args, "group_version"), arg(args, "resource")
    if not snapshot.apis:
        return unknown(tr("the list of served APIs was not read"))
    for api in snapshot.apis:
        if api.group_version != wanted:
            continue
        if api.resources is None:
            return unknown(tr("the resources of {group_version} were not read", group_version=wanted))
        value = "yes" if any(item.name == resource for item in api.resources) else "no"
        return Reading(value=value, evidence=(seen_in(f"/apis/{wanted}", resource, value, "discovery"),))
    return Reading(value="no", evidence=(seen_in("/apis", wanted, "no", "discovery"),))


def _services_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 2)
    if not rows:
        return printed_nothing()
    return Reading(value=tuple(sorted(name for name, status, *_ in rows if status not in ("True", ""))))


def _services(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, "apiservices.apiregistration.k8s.io"):
        return lack
    down = tuple(sorted(service.name for service in snapshot.api_services if service.available is False))
    seen = seen_in("APIServices", "Available", ", ".join(down) or "all available", "api object")
    return Reading(value=down, evidence=(seen,))


ROWS: tuple[Fact, ...] = (
    Fact(
        name="server.version",
        layer="api",
        title=lambda _a: tr("The API server's version"),
        command=lambda _a: RAW + "/version",
        evaluate=_server_version,
        parse=_server_version_parse,
    ),
    Fact(
        name="apiserver.readyz",
        layer="api",
        title=lambda _a: tr("The API server is ready"),
        command=lambda _a: RAW + "'/readyz?verbose'",
        evaluate=_readyz,
        parse=_readyz_parse,
    ),
    Fact(
        name="apiserver.gate",
        layer="api",
        title=lambda a: tr("Feature gate {gate} as the API server says", gate=a["gate"]),
        command=_gate_command,
        evaluate=_gate,
        parse=_gate_parse,
    ),
    Fact(
        name="api.group-version",
        layer="api",
        title=lambda a: tr("{group_version} is served", group_version=a["group_version"]),
        command=_group_command,
        evaluate=_group,
        parse=_group_parse,
    ),
    Fact(
        name="api.resource",
        layer="api",
        title=lambda a: tr(
            "{group_version} serves {resource}", group_version=a["group_version"], resource=a["resource"]
        ),
        command=_resource_command,
        evaluate=_resource,
        parse=_resource_parse,
    ),
    Fact(
        name="api.services-down",
        layer="api",
        title=lambda _a: tr("APIServices that are not available"),
        command=lambda _a: kubectl_get(
            "apiservices.apiregistration.k8s.io",
            for_items([".metadata.name", '.status.conditions[?(@.type=="Available")].status']),
        ),
        evaluate=_services,
        parse=_services_parse,
        reads=("apiservices.apiregistration.k8s.io",),
    ),
)
"""The rows of this module, in the order of the table."""
