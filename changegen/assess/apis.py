"""APIs: what clients ask for that goes, what is stored that cannot be read, what the profile wants served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, label_of, names
from changegen.assess.flags import entries
from changegen.i18n import tr, trn
from changegen.kubedata import Api, KubernetesData
from changegen.model.ticket import Evidence, Finding, ForecastRow
from changegen.versions import minor_key, minor_of

REQUESTED_REMOVED = Code(
    code="CG-API-001",
    title="API in use that the target no longer serves",
    severity="blocking",
    meaning="apiserver_requested_deprecated_apis shows that clients asked, since that kube-apiserver started, for an API "
    "that a minor of the way removes.",
    remedy="Find the clients (audit log, managedFields, user agents) and move them to the replacement before the change.",
)
REQUESTED_DEPRECATED = Code(
    code="CG-API-002",
    title="Deprecated API in use",
    severity="info",
    meaning="Clients asked lately for an API that is deprecated and is still served at the target.",
    remedy="Find the clients, and move them in time.",
)
STORED = Code(
    code="CG-API-003",
    title="Stored objects that the target cannot decode",
    severity="blocking",
    meaning="Objects exist in an API version that a minor of the way has dropped. Lists of the resource fail from then on.",
    remedy="Delete the objects before the change, and make them anew in the new version after it.",
)
STORED_BACK = Code(
    code="CG-API-004",
    title="Stored objects that today's version cannot decode",
    severity="warning",
    meaning="The target stores a kind in a version that today's minor cannot decode: after going back, lists of it fail.",
    remedy="Delete the objects of this kind before going back.",
)
OBJECTS = Code(
    code="CG-API-005",
    title="Objects written in an API version that goes",
    severity="blocking",
    others=("info",),
    meaning="Objects of the input are in an API version that the target no longer serves: the manifests or clients that "
    "made them stop working. An info where the version is deprecated at the target and goes later.",
    remedy="Rewrite them in the replacement version.",
)
CRD_STORED = Code(
    code="CG-API-006",
    title="Custom resource stored in a version that it does not serve",
    severity="warning",
    meaning="status.storedVersions of a CustomResourceDefinition names a version that the definition no longer serves: old objects "
    "may still be in etcd in it, and an operator that drops the version for good makes them unreadable.",
    remedy="Migrate the stored objects, then take the version out of status.storedVersions, before its operator is upgraded.",
)
WISH_UNSERVED = Code(
    code="CG-API-010",
    title="Wished API not served",
    severity="warning",
    meaning="The profile wants an API or kind served that is not, or will not be at the target with what is set today.",
    remedy="Enable it with --runtime-config and the gates that it needs, or correct the profile.",
)
WISH_SERVED = Code(
    code="CG-API-011",
    title="API served that the profile wants absent",
    severity="warning",
    meaning="The profile wants an API not to be served, and it is.",
    remedy="Remove its entry from --runtime-config, or correct the profile.",
)
WISH_UNKNOWN = Code(
    code="CG-API-012",
    title="Cannot tell whether a wished API is served",
    severity="warning",
    meaning="Neither discovery nor --runtime-config was read in a way that tells.",
    remedy="Add the answers of /apis and of the group version to the capture.",
)
AGGREGATED_DOWN = Code(
    code="CG-API-020",
    title="Aggregated API not available",
    severity="warning",
    meaning="An APIService is not available. Discovery is incomplete, deletions of namespaces hang, and what it serves "
    "could not be read.",
    remedy="Mend it, or remove the APIService, before the change.",
)
CODES = (
    REQUESTED_REMOVED,
    REQUESTED_DEPRECATED,
    STORED,
    STORED_BACK,
    OBJECTS,
    CRD_STORED,
    WISH_UNSERVED,
    WISH_SERVED,
    WISH_UNKNOWN,
    AGGREGATED_DOWN,
)


@lru_cache(maxsize=16)
def _index(data: KubernetesData) -> dict[tuple[str, str], tuple[Api, str]]:
    """(group version, resource or kind) → the newest record of it and the minor that it is from."""
    found: dict[tuple[str, str], tuple[Api, str]] = {}
    for minor in data.minors:
        for api in data.apis(minor):
            for name in {api.resource, api.kind} - {""}:
                found[api.group_version, name] = (api, minor)
    return found


def removed_in(data: KubernetesData, group_version: str, name: str) -> str | None:
    """Minor that no longer serves a resource or kind in a group version, by the newest data; None: none known."""
    found = _index(data).get((group_version, name))
    if found is None:
        return None
    api, minor = found
    if api.removed:
        return api.removed
    after = data.minors.index(minor) + 1
    return data.minors[after] if after < len(data.minors) else None


def deprecated_in(data: KubernetesData, group_version: str, name: str) -> str | None:
    """Minor in which a resource or kind of a group version was deprecated, by the newest data; None: none known."""
    found = _index(data).get((group_version, name))
    return found[0].deprecated if found is not None else None


def replacement(data: KubernetesData, group_version: str, name: str) -> str:
    """What takes over, `group/version/Kind`; empty where nothing is stated."""
    found = _index(data).get((group_version, name))
    return (found[0].replacement or "") if found is not None else ""


def _by(minor: str | None, target: str | None) -> bool:
    return minor is not None and target is not None and minor_key(minor) <= minor_key(target)


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on APIs."""
    yield from _requested(ctx)
    yield from _stored(ctx)
    yield from _objects(ctx)
    yield from _wishes(ctx)
    yield from _custom(ctx)
    for service in ctx.snapshot.api_services:
        if service.available is False:
            yield finding(
                AGGREGATED_DOWN,
                tr(
                    "APIService {name} ({service}) is not available: {reason} {message}",
                    name=service.name,
                    service=service.service,
                    reason=service.reason,
                    message=service.message,
                ).strip(),
                component="APIService",
                name=service.name,
                evidence=(
                    Evidence(
                        source=f"apiservices/{service.name}",
                        path="status.conditions[Available]",
                        value=service.reason,
                        provenance="api object",
                    ),
                ),
                preexisting=True,
            )


def _custom(ctx: Context) -> Iterator[Finding]:
    for resource in ctx.snapshot.custom_resources:
        lost = sorted(set(resource.stored) - set(resource.served)) if resource.served else []
        if lost:
            yield finding(
                CRD_STORED,
                tr(
                    "{name} lists {stored} as stored and serves {served}.",
                    name=resource.name,
                    stored=", ".join(lost),
                    served=", ".join(resource.served),
                ),
                component="CustomResourceDefinition",
                name=resource.name,
                evidence=(
                    Evidence(
                        source=f"customresourcedefinitions/{resource.name}",
                        path="status.storedVersions",
                        value=", ".join(resource.stored),
                        provenance="api object",
                    ),
                ),
                preexisting=True,
            )


def _requested(ctx: Context) -> Iterator[Finding]:
    groups: defaultdict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for process in ctx.snapshot.processes:
        for row in process.requested_deprecated_apis:
            gv = f"{row.group}/{row.version}" if row.group else row.version
            resource = f"{row.resource}/{row.subresource}" if row.subresource else row.resource
            groups[gv, resource, row.removed_release].append((row.place or process.place, row.resource))
    for (gv, resource, release), places in sorted(groups.items()):
        gone = minor_of(release) or removed_in(ctx.data, gv, places[0][1])
        after = replacement(ctx.data, gv, places[0][1])
        evidence = [
            Evidence(
                source=place,
                path="apiserver_requested_deprecated_apis",
                value=f"{gv} {resource} removed_release={release or '-'}",
                provenance="metric",
            )
            for place in sorted({place for place, _ in places})[:5]
        ]
        advice_of = REQUESTED_REMOVED if _by(gone, ctx.target_minor) else REQUESTED_DEPRECATED
        advice = tr(advice_of.remedy)
        if after:
            advice += " " + tr("Replacement: {after}.", after=after)
        if _by(gone, ctx.target_minor):
            yield finding(
                REQUESTED_REMOVED,
                tr(
                    "Clients asked for {resource} in {gv} since this kube-apiserver started; {minor} no longer serves it.",
                    resource=resource,
                    gv=gv,
                    minor=gone,
                ),
                component="API",
                name=f"{gv}/{resource}",
                evidence=evidence,
                advice=advice,
                hop=ctx.hop_of(gone or ""),
            )
        else:
            text = tr(
                "Clients asked for {resource} in {gv} since this kube-apiserver started; it is deprecated.",
                resource=resource,
                gv=gv,
            )
            if gone:
                text += " " + tr("{minor} is to remove it.", minor=gone)
            yield finding(
                REQUESTED_DEPRECATED,
                text,
                component="API",
                name=f"{gv}/{resource}",
                evidence=evidence,
                advice=advice,
            )


def _stored(ctx: Context) -> Iterator[Finding]:
    way = [m for m in ctx.path if ctx.data.knows(m)]
    for stored in ctx.snapshot.stored_objects:
        if not stored.names:
            continue
        group, _, version = stored.group_version.rpartition("/")
        evidence = (
            Evidence(
                source=f"{stored.resource} {stored.group_version}",
                path="items",
                value=names(stored.names, 10),
                provenance="api object",
            ),
        )
        # The version in which an object was read need not be the one in etcd; the one of today's storage is.
        today = ctx.today_minor
        kept = _storage(ctx, stored.group_version, stored.resource, today) or version
        for minor in way:
            if not decodes(ctx, minor, group, kept, stored.resource):
                yield finding(
                    STORED,
                    trn(
                        "{n} object of {resource} is stored in {gv}, which {minor} can no longer decode: {names}.",
                        "{n} objects of {resource} are stored in {gv}, which {minor} can no longer decode: {names}.",
                        n=len(stored.names),
                        resource=stored.resource,
                        gv=f"{group}/{kept}",
                        minor=minor,
                        names=names(stored.names, 10),
                    ),
                    component="API",
                    instances=stored.names,
                    name=f"{stored.group_version}/{stored.resource}",
                    evidence=evidence,
                    hop=ctx.hop_of(minor),
                )
                break
        if not way or today is None or not ctx.data.knows(today):
            continue
        later = _storage(ctx, "", stored.resource, way[-1], group) or ""
        if later and not decodes(ctx, today, group, later, stored.resource):
            yield finding(
                STORED_BACK,
                trn(
                    "{minor} stores {resource} in {gv}, which {today} cannot decode: {n} exists now.",
                    "{minor} stores {resource} in {gv}, which {today} cannot decode: {n} exist now.",
                    minor=way[-1],
                    resource=stored.resource,
                    gv=f"{group}/{later}",
                    today=today,
                    n=len(stored.names),
                ),
                component="API",
                instances=stored.names,
                name=f"{group}/{later}/{stored.resource}",
                evidence=evidence,
            )


def decodes(ctx: Context, minor: str, group: str, version: str, resource: str) -> bool:
    """Whether a minor's kube-apiserver knows a kind in a version, served or not; of a foreign group it is not judged."""
    if group not in ctx.data.minor(minor).groups:
        return True
    kinds = {
        api.kind
        for m in ctx.data.minors
        for api in ctx.data.apis(m)
        if api.group == group and api.resource == resource
    }
    return any(
        api.group == group and api.version == version and api.kind in kinds for api in ctx.data.apis(minor)
    )


def _storage(
    ctx: Context, group_version: str, resource: str, minor: str | None, group: str = ""
) -> str | None:
    """Version (without group) in which a minor writes a resource to etcd; None where the data does not say."""
    if minor is None or not ctx.data.knows(minor):
        return None
    for api in ctx.data.apis(minor):
        same = api.group_version == group_version if group_version else api.group == group
        if same and api.resource == resource and api.storage:
            return api.storage.rpartition("/")[2]
    return None


def _objects(ctx: Context) -> Iterator[Finding]:
    """Objects of resource.k8s.io as they were read: a manifest keeps the version that it was written in."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for claim in ctx.snapshot.claims:
        found[claim.api_version, "ResourceClaim"].append(_full(claim.namespace, claim.name))
    for template in ctx.snapshot.claim_templates:
        found[template.api_version, "ResourceClaimTemplate"].append(_full(template.namespace, template.name))
    for device_class in ctx.snapshot.device_classes:
        found[device_class.api_version, "DeviceClass"].append(device_class.name)
    for rule in ctx.snapshot.taint_rules:
        found[rule.api_version, "DeviceTaintRule"].append(rule.name)
    for pool in ctx.snapshot.pools:
        found[pool.api_version, "ResourceSlice"].extend(s.name for s in pool.slices)
    for (version, kind), objects in sorted(found.items()):
        gv = version if "/" in version or not version else f"resource.k8s.io/{version}"
        gone = removed_in(ctx.data, gv, kind) if gv else None
        since = deprecated_in(ctx.data, gv, kind) if gv else None
        after = replacement(ctx.data, gv, kind)
        now = _by(gone, ctx.target_minor)
        if now:
            text = trn(
                "{n} object of kind {kind} was read in {gv}; {minor} no longer serves it: {names}.",
                "{n} objects of kind {kind} were read in {gv}; {minor} no longer serves it: {names}.",
                n=len(objects),
                kind=kind,
                gv=gv,
                minor=gone,
                names=names(objects),
            )
        elif gone is not None and _by(since, ctx.target_minor):
            text = trn(
                "{n} object of kind {kind} was read in {gv}, deprecated since {since}; it goes with {minor}: {names}.",
                "{n} objects of kind {kind} were read in {gv}, deprecated since {since}; it goes with {minor}: {names}.",
                n=len(objects),
                kind=kind,
                gv=gv,
                since=since,
                minor=gone,
                names=names(objects),
            )
        else:
            continue
        yield finding(
            OBJECTS,
            text,
            severity="blocking" if now else "info",
            component="API",
            instances=objects,
            name=f"{gv}/{kind}",
            advice=tr(OBJECTS.remedy) + (" " + tr("Replacement: {after}.", after=after) if after else ""),
            hop=ctx.hop_of(gone or ""),
        )


def _full(namespace: str, name: str) -> str:
    """Name with its namespace; a manifest need not say one."""
    return f"{namespace}/{name}" if namespace else name


# ------------------------------------------------------------------------------------------------------- served


def served_at_target(ctx: Context, group_version: str, kind: str = "") -> bool | None:
    """Whether the target serves a group version (or a kind in it) with the --runtime-config of today; None: unknown.

    Where the kube-apiservers are on the target already, discovery answers.
    """
    wish = ctx.target
    if wish is None or (ctx.apiserver_versions and all(wish.satisfied(v) for v in ctx.apiserver_versions)):
        seen = ctx.served(group_version, kind)
        if seen is not None:
            return seen
    minor = minor_of(ctx.goes_to("kube-apiserver")) or ctx.today_minor
    if minor is None or not ctx.data.knows(minor):
        return None
    return computed(ctx, minor, group_version, kind)


def computed(ctx: Context, minor: str, group_version: str, kind: str = "") -> bool | None:
    """Whether a minor serves a group version or kind, by defaults, --runtime-config and gates; None: unknown.

    A group that Kubernetes does not have is a custom resource's or an aggregated one: discovery of today stands for it.
    """
    group = group_version.rpartition("/")[0]
    groups = ctx.data.minor(minor).groups
    if groups and group not in groups:
        return ctx.served(group_version, kind)
    kinds = [
        api
        for api in ctx.data.apis(minor)
        if api.group_version == group_version and api.resource and (not kind or api.kind == kind)
    ]
    possible = [api for api in kinds if api.served]
    if not possible:
        return False
    answers = [_kind_served(ctx, api) for api in possible]
    return True if True in answers else None if None in answers else False


def _kind_served(ctx: Context, api: Api) -> bool | None:
    configs = [
        entries(c.runtime_config) if c.runtime_config is not None else None for c in ctx.of("kube-apiserver")
    ]
    configs += [
        entries(p.runtime_config) for p in ctx.processes("kube-apiserver") if p.runtime_config is not None
    ]
    answers = {_enabled(api, config) for config in configs} or {None}
    if api.enabled and answers <= {None, True}:
        enabled: bool | None = True
    elif None in answers and True not in answers:
        enabled = None
    else:
        enabled = True in answers
    if not enabled or not api.gates:
        return enabled
    at = "target" if ctx.target is not None else "today"
    for gate in api.gates:
        states = ctx.gate_states(gate, ("kube-apiserver",), at)  # type: ignore[arg-type]
        if any(state.value for state in states):
            continue
        return None if not states or any(not state.known for state in states) else False
    return True


def _enabled(api: Api, config: dict[str, str] | None) -> bool | None:
    if config is None:
        return None if not api.enabled else True
    keys = [f"{api.group_version}/{api.resource}", api.group_version]
    stage = "alpha" if "alpha" in api.version else "beta" if "beta" in api.version else "ga"
    keys += [f"api/{stage}", "api/all"]
    for key in keys:
        if key in config:
            return config[key].lower() not in {"false", "0", "f"}
    return api.enabled


def _wishes(ctx: Context) -> Iterator[Finding]:
    for wish in ctx.profile.apis:
        for kind in wish.kinds or ("",):
            now = served_at_target(ctx, wish.group_version, kind)
            name = f"{wish.group_version}/{kind}" if kind else wish.group_version
            evidence = [
                Evidence(source="profile", path="apis", value=f"{name} {wish.expect}", provenance="profile")
            ]
            target = ctx.target.text if ctx.target is not None else tr("today's version")
            if now is None:
                yield finding(
                    WISH_UNKNOWN,
                    tr(
                        "Whether {target} serves {name} cannot be told from what was read.",
                        target=target,
                        name=name,
                    ),
                    component="API",
                    name=name,
                    evidence=evidence,
                )
            elif wish.expect == "served" and not now:
                yield finding(
                    WISH_UNSERVED,
                    tr("{target} will not serve {name} with what is set today.", target=target, name=name)
                    + _why_unserved(ctx, wish.group_version, kind),
                    component="API",
                    name=name,
                    evidence=evidence,
                )
            elif wish.expect == "absent" and now:
                yield finding(
                    WISH_SERVED,
                    tr("{target} serves {name}, which the profile wants absent.", target=target, name=name),
                    component="API",
                    name=name,
                    evidence=evidence,
                )


def _why_unserved(ctx: Context, group_version: str, kind: str) -> str:
    minor = minor_of(ctx.goes_to("kube-apiserver")) or ctx.today_minor
    if minor is None or not ctx.data.knows(minor):
        return ""
    kinds = [
        a for a in ctx.data.apis(minor) if a.group_version == group_version and (not kind or a.kind == kind)
    ]
    if not any(a.served for a in kinds):
        return " " + tr("{minor} does not have it.", minor=minor)
    if not any(a.enabled for a in kinds):
        return " " + tr("It is off by default: --runtime-config={gv}=true.", gv=group_version)
    gates = sorted({gate for a in kinds for gate in a.gates})
    return " " + tr("It needs the gates {gates}.", gates=", ".join(gates)) if gates else ""


def forecast_rows(ctx: Context) -> tuple[ForecastRow, ...]:
    """Served group versions of Kubernetes that the target no longer serves."""
    minor = minor_of(ctx.goes_to("kube-apiserver"))
    if minor is None or not ctx.data.knows(minor) or not ctx.path:
        return ()
    rows = []
    for api in ctx.snapshot.apis:
        group = api.group_version.rpartition("/")[0]
        if group not in ctx.data.minor(minor).groups and not any(
            a.group_version == api.group_version for m in ctx.data.minors for a in ctx.data.apis(m)
        ):
            continue
        if computed(ctx, minor, api.group_version) is False:
            rows.append(
                ForecastRow(
                    kind="api",
                    name=api.group_version,
                    component="kube-apiserver",
                    instances=tuple(label_of(c) for c in ctx.of("kube-apiserver")),
                    today=tr("served"),
                    at_target=tr("not served"),
                    effect="flips-off",
                    provenance="discovery",
                )
            )
    return tuple(rows)
