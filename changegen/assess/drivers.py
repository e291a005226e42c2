"""DRA drivers: versions that disagree, workloads and slices that do not belong together, pools that are not whole."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, SelectorError, VersionWish, names
from changegen.assess.dra import index
from changegen.i18n import tr
from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import Driver, Pool, Workload, WorkloadRef
from changegen.model.ticket import DriverRow, Evidence, Finding, PoolRow
from changegen.versions import Version, minor_key, minor_of, parse_image, same_release, try_version

__all__ = ["CODES", "driver_rows", "findings", "pool_rows"]

NO_VERSION = Code(
    code="CG-DRIVER-001",
    title="Driver version not observable",
    severity="info",
    meaning="The plugin's image has no tag that is a version (a digest, `latest`, `stable`): nothing in the API tells which "
    "version runs, and two nodes may run different builds under one tag.",
    remedy="Pin the plugin's image to a version, and note the imageID that runs.",
)
LABEL_LAGS = Code(
    code="CG-DRIVER-002",
    title="Label or chart and image name different driver versions",
    severity="warning",
    others=("info",),
    meaning="app.kubernetes.io/version or helm.sh/chart is not the tag of the plugin's image. The image is what runs; whoever "
    "reads labels is told something else. Charts of some projects have numbers of their own.",
    remedy="Level them where the workload is made (chart values, manifests).",
)
TWO_VERSIONS = Code(
    code="CG-DRIVER-003",
    title="Two versions of a driver at once",
    severity="warning",
    meaning="Pods of one driver have different image tags, or two workloads serve it: a rollout is under way or stuck, or an "
    "old installation was left behind.",
    remedy="Finish the rollout, or remove the old workload, before the change.",
)
DEVICE_VERSIONS = Code(
    code="CG-DRIVER-004",
    title="Device driver versions differ",
    severity="warning",
    meaning="The attribute driverVersion (the vendor's, usually the kernel driver's) is not the same on all devices of a driver.",
    remedy="Explain or level it: a Pod that moves meets another device driver.",
)
NOT_REPORTED = Code(
    code="CG-DRIVER-005",
    title="Device driver version not reported",
    severity="info",
    meaning="The attribute driverVersion is 0.0.0: the driver could not find one out. It is no very old version.",
    remedy="Nothing, or ask the driver's owner.",
)
NO_WORKLOAD = Code(
    code="CG-DRIVER-006",
    title="No workload known that serves a driver",
    severity="info",
    others=("warning",),
    meaning="Devices of a driver are published or claimed, and no workload that was read seems to serve it: it runs "
    "outside of Pods, by a static Pod, or was not in the capture.",
    remedy="Name it in the profile (drivers: workload), or find out who publishes the slices.",
)
WANTED_MISSING = Code(
    code="CG-DRIVER-007",
    title="Driver that the profile wants is not there",
    severity="warning",
    meaning="The profile names a DRA driver; nothing publishes, names or serves it.",
    remedy="Install it, or correct the profile.",
)
NODES_UNCOVERED = Code(
    code="CG-DRIVER-008",
    title="Nodes without devices of a driver that the profile wants there",
    severity="warning",
    meaning="Nodes that the profile's selector takes publish no slice of the driver.",
    remedy="Look at the driver's Pod on these nodes.",
)
NOT_READY = Code(
    code="CG-DRIVER-009",
    title="Driver Pods not ready",
    severity="warning",
    meaning="Fewer Pods of the driver's workload are ready than wanted.",
    remedy="Mend them before the change; a Pod cannot start with a claim where the driver is down.",
)
SCHEME = Code(
    code="CG-DRIVER-010",
    title="Driver changed its version scheme",
    severity="info",
    meaning="Today's version and the wanted one follow different schemes (calendar and release numbers): neither is older.",
    remedy="Read the project's notes on the change of numbers; the order cannot be told from them.",
)
NO_SLICE_ON_NODE = Code(
    code="CG-SLICE-001",
    title="Driver Pod without a ResourceSlice on its node",
    severity="warning",
    meaning="A driver runs on a node and publishes nothing there: no device, a rejected slice, a plugin that the kubelet does "
    "not register, or a slice that is yet to come (a starting kubelet deletes its node's slices).",
    remedy="Read the log of the driver's Pod on that node, and wait two minutes after a start of the kubelet before judging.",
)
NO_SLICE_AT_ALL = Code(
    code="CG-SLICE-002",
    title="Driver ready, not one ResourceSlice",
    severity="warning",
    others=("info",),
    meaning="The driver's workload is ready, and nothing is published: the API server may refuse its slices, or the driver "
    "may speak a version of resource.k8s.io that is not served. Ready Pods are no passing device check.",
    remedy="Check which version of resource.k8s.io the driver supports, and read its log; the image does not tell it.",
)
SLICE_NO_POD = Code(
    code="CG-SLICE-003",
    title="ResourceSlice without a running driver Pod",
    severity="warning",
    meaning="A node publishes devices of a driver of which no ready Pod runs there: Pods are still bound to it, and nothing can "
    "prepare their devices.",
    remedy="Bring the driver's Pod back, or cordon the node. Do not delete slices as a first step.",
)
SLICE_NO_NODE = Code(
    code="CG-SLICE-004",
    title="ResourceSlice of a node that is not in the list of Nodes",
    severity="warning",
    meaning="A slice names a node that was not read: it is stale, or the node is outside of the capture.",
    remedy="Look whether the node exists.",
)
INCOMPLETE = Code(
    code="CG-SLICE-005",
    title="Pool not complete",
    severity="warning",
    meaning="A pool has not as many slices of its newest generation as it says. The scheduler allocates nothing from it.",
    remedy="Wait for the driver, or read its log.",
)
OLD_GENERATION = Code(
    code="CG-SLICE-006",
    title="Slices of an older generation",
    severity="info",
    meaning="Slices of an older generation of a pool are still there; their devices do not count.",
    remedy="The driver deletes them; look at its log if they stay.",
)
CODES = (
    NO_VERSION,
    LABEL_LAGS,
    TWO_VERSIONS,
    DEVICE_VERSIONS,
    NOT_REPORTED,
    NO_WORKLOAD,
    WANTED_MISSING,
    NODES_UNCOVERED,
    NOT_READY,
    SCHEME,
    NO_SLICE_ON_NODE,
    NO_SLICE_AT_ALL,
    SLICE_NO_POD,
    SLICE_NO_NODE,
    INCOMPLETE,
    OLD_GENERATION,
)

SLICES: Final = "resourceslices.resource.k8s.io"
UNREPORTED: Final = "0.0.0"
_CHART: Final = re.compile(r"-v?(\d+\.\d+(?:\.\d+)?(?:[-+].*)?)$")
# kubelet 1.34 dropped the plugin API v1alpha4, on which drivers with helpers of 1.31 and before register.
_PLUGIN_API_GONE: Final = "1.34"


def _where(workload: WorkloadRef | None) -> str:
    return f"{workload.kind} {workload.namespace}/{workload.name}" if workload is not None else ""


def _seen(driver: Driver, path: str, value: str, provenance: str = "workload template") -> Evidence:
    return Evidence(
        source=_where(driver.workload) or driver.driver, path=path, value=value, provenance=provenance
    )


def _same(tag: str, label: str) -> bool:
    left, right = try_version(tag), try_version(label)
    if left is None or right is None:
        return tag.removeprefix("v") == label.removeprefix("v")
    return left.scheme == right.scheme and same_release(left, right) and left.pre == right.pre


# --------------------------------------------------------------------------------------------------------------- rows


def driver_rows(ctx: Context) -> tuple[DriverRow, ...]:
    """Every driver against what the profile wants."""
    wishes = {wish.name: wish for wish in ctx.profile.drivers}
    rows = []
    for driver in ctx.snapshot.drivers:
        wish = wishes.get(driver.driver)
        labels = ", ".join(text for text in (driver.labels_version, driver.chart) if text)
        notes = []
        if driver.workload is not None:
            notes.append(tr("workload inferred"))
        if driver.other_versions:
            others = ", ".join(f"{tag} ({n})" for tag, n in driver.other_versions.items())
            notes.append(tr("also {others}", others=others))
        rows.append(
            DriverRow(
                driver=driver.driver,
                workload=_where(driver.workload),
                version=driver.version,
                version_source=driver.version_source,
                target=wish.version if wish is not None else "",
                labels=labels,
                device_versions=", ".join(
                    f"{tr('not reported') if version == UNREPORTED else version} ({n})"
                    for version, n in driver.device_driver_versions.items()
                ),
                nodes=len(driver.nodes),
                devices=driver.devices,
                note="; ".join(notes),
            )
        )
    seen = {driver.driver for driver in ctx.snapshot.drivers}
    rows.extend(
        DriverRow(
            driver=wish.name,
            workload=wish.workload,
            version="",
            version_source="",
            target=wish.version,
            labels="",
            device_versions="",
            nodes=0,
            devices=0,
            note=tr("not seen"),
        )
        for wish in ctx.profile.drivers
        if wish.name not in seen
    )
    return tuple(sorted(rows, key=lambda row: row.driver))


def pool_rows(ctx: Context) -> tuple[PoolRow, ...]:
    """Devices of every pool: how many, allocated, tainted, and what keeps Pods from the node."""
    at = index(ctx)
    members: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for key in at.devices:
        counts = members[key.driver, key.pool]
        counts[0] += at.allocated(key)
        counts[1] += any(effect in {"NoSchedule", "NoExecute"} for _, _, effect, _ in at.taints(key))
    rows = []
    for pool in ctx.snapshot.pools:
        allocated, tainted = members[pool.driver, pool.name]
        node = at.nodes.get(pool.node or "")
        taints = [
            f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"
            for taint in (node.taints if node is not None else ())
            if taint.effect in {"NoSchedule", "NoExecute"}
        ]
        rows.append(
            PoolRow(
                driver=pool.driver,
                pool=pool.name,
                node=pool.node or pool.node_selector,
                devices=len(pool.devices),
                allocated=allocated,
                tainted=tainted,
                behind_node_taint=", ".join(taints),
                driver_versions=", ".join(
                    tr("not reported") if version == UNREPORTED else version
                    for version in sorted(_device_versions(pool))
                ),
            )
        )
    return tuple(rows)


def _device_versions(pool: Pool) -> set[str]:
    return {
        str(attribute.value)
        for device in pool.devices
        if (attribute := device.attributes.get(f"{pool.driver}/driverVersion")) is not None
        and attribute.value is not None
    }


# ----------------------------------------------------------------------------------------------------------- findings


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on drivers and slices."""
    for driver in ctx.snapshot.drivers:
        yield from _version(driver)
        yield from _devices(ctx, driver)
        yield from _workload(ctx, driver)
        yield from _coverage(ctx, driver)
    yield from _unlinked(ctx)
    yield from _wishes(ctx)
    yield from _nodes(ctx)
    yield from _pools(ctx)


def _version(driver: Driver) -> Iterator[Finding]:
    if driver.workload is None:
        return
    if driver.version == UNOBSERVABLE:
        yield finding(
            NO_VERSION,
            tr("{driver}: {why}", driver=driver.driver, why=driver.version_source),
            component="driver",
            name=driver.driver,
            evidence=[_seen(driver, "spec.template.spec.containers[].image", driver.image)],
        )
    else:
        chart = _CHART.search(driver.chart)
        lags = driver.labels_version and not _same(driver.version, driver.labels_version)
        chart_lags = chart is not None and not _same(driver.version, chart[1])
        if lags or chart_lags:
            told = [
                f"app.kubernetes.io/version {driver.labels_version}" if lags else "",
                f"helm.sh/chart {driver.chart}" if chart_lags else "",
            ]
            yield finding(
                LABEL_LAGS,
                tr(
                    "{driver}: the image of {workload} is {version}, but {labels}",
                    driver=driver.driver,
                    workload=_where(driver.workload),
                    version=driver.version,
                    labels=", ".join(text for text in told if text),
                ),
                preexisting=True,
                component="driver",
                name=driver.driver,
                severity="warning" if lags else "info",
                evidence=[
                    _seen(driver, "spec.template.spec.containers[].image", driver.image),
                    _seen(
                        driver,
                        "metadata.labels",
                        ", ".join(text for text in (driver.labels_version, driver.chart) if text),
                        "label",
                    ),
                ],
            )
    running = dict(driver.running_versions)
    if driver.other_versions or len(running) > 1:
        everything = {driver.version: 0, **running}
        for tag, n in driver.other_versions.items():
            everything[tag] = max(everything.get(tag, 0), n)
        shown = ", ".join(f"{tag} ({n})" if n else tag for tag, n in sorted(everything.items()))
        yield finding(
            TWO_VERSIONS,
            tr("{driver}: {versions} at once", driver=driver.driver, versions=shown),
            preexisting=True,
            component="driver",
            name=driver.driver,
            evidence=[_seen(driver, "status.containerStatuses[].image", shown, "pod status")],
        )


def _devices(ctx: Context, driver: Driver) -> Iterator[Finding]:
    versions = driver.device_driver_versions
    where: defaultdict[str, set[str]] = defaultdict(set)
    for pool in ctx.snapshot.pools:
        if pool.driver == driver.driver:
            for version in _device_versions(pool):
                where[version].add(pool.node or pool.name)
    known = {version: n for version, n in versions.items() if version != UNREPORTED}
    if len(known) > 1:
        shown = "; ".join(f"{version}: {names(where[version])}" for version in sorted(known))
        yield finding(
            DEVICE_VERSIONS,
            tr("{driver}: attribute driverVersion differs: {versions}", driver=driver.driver, versions=shown),
            preexisting=True,
            component="driver",
            instances=sorted({node for version in known for node in where[version]}),
            name=driver.driver,
            evidence=[
                Evidence(
                    source="ResourceSlices",
                    path="spec.devices[].attributes.driverVersion",
                    value=shown,
                    provenance="api object",
                )
            ],
        )
    if UNREPORTED in versions:
        yield finding(
            NOT_REPORTED,
            tr(
                "{driver}: driverVersion 0.0.0 on {n} devices ({nodes}) means not reported",
                driver=driver.driver,
                n=versions[UNREPORTED],
                nodes=names(where[UNREPORTED]),
            ),
            component="driver",
            instances=where[UNREPORTED],
            name=driver.driver,
        )


def _workload(ctx: Context, driver: Driver) -> Iterator[Finding]:
    if driver.workload is None:
        if driver.devices or driver.nodes:
            read = "daemonsets.apps" in ctx.snapshot.kinds_read
            yield finding(
                NO_WORKLOAD,
                tr(
                    "{driver}: {devices} devices on {nodes} nodes are published, and no workload that was read seems to serve it",
                    driver=driver.driver,
                    devices=driver.devices,
                    nodes=len(driver.nodes),
                ),
                component="driver",
                name=driver.driver,
                severity="warning" if read else "info",
            )
        return
    if driver.desired is not None and driver.ready is not None and driver.ready < driver.desired:
        unready = sorted(set(driver.pod_nodes or ()) - set(driver.ready_nodes or ()))
        text = tr(
            "{workload}: {ready} of {desired} Pods are ready",
            workload=_where(driver.workload),
            ready=driver.ready,
            desired=driver.desired,
        )
        if unready:
            text += "; " + tr("not ready on {nodes}", nodes=names(unready))
        yield finding(
            NOT_READY,
            text,
            preexisting=True,
            component="driver",
            instances=unready,
            name=driver.driver,
            evidence=[_seen(driver, "status.numberReady", str(driver.ready), "api object")],
        )


def _log_command(driver: Driver, node: str) -> str:
    workload = driver.workload
    if workload is None:
        return ""
    container = f" -c {driver.container}" if driver.container else ""
    return (
        f"kubectl -n {workload.namespace} logs $(kubectl -n {workload.namespace} get pods "
        f"--field-selector spec.nodeName={node} -o name | grep /{workload.name}-){container} --tail=100"
    )


def _coverage(ctx: Context, driver: Driver) -> Iterator[Finding]:
    if driver.workload is None or not _slices_expected(ctx):
        return
    ready = _ready(driver)
    published = set(driver.nodes)
    anywhere = any(pool.driver == driver.driver for pool in ctx.snapshot.pools)
    if ready and not anywhere:
        yield _none_at_all(ctx, _where(driver.workload), driver.driver, driver.version, ready)
        return
    networked = any(pool.driver == driver.driver and pool.node is None for pool in ctx.snapshot.pools)
    if driver.pod_nodes is not None and driver.workload.kind == "DaemonSet" and not networked:
        bare = sorted(set(driver.ready_nodes or ()) - published)
        if bare:
            yield _on_nodes(ctx, driver, bare)
    elif driver.pod_nodes is None and ready > len(published) and not networked and published:
        yield _by_count(ctx, driver, ready, published)
    if driver.pod_nodes is not None and not networked and driver.workload.kind == "DaemonSet":
        gone = sorted(published - set(driver.ready_nodes or ()))
        if gone:
            yield finding(
                SLICE_NO_POD,
                tr(
                    "{driver}: slices on {nodes}, where no ready Pod of {workload} runs",
                    driver=driver.driver,
                    nodes=names(gone),
                    workload=_where(driver.workload),
                ),
                preexisting=True,
                component="driver",
                instances=gone,
                name=driver.driver,
                evidence=[
                    Evidence(
                        source="ResourceSlices, Pods",
                        path="spec.nodeName",
                        value=node,
                        provenance="api object",
                    )
                    for node in gone[:20]
                ],
            )


def _slices_expected(ctx: Context) -> bool:
    """Whether a lack of slices is worth a word: they were listed, or other objects of resource.k8s.io came without them."""
    snapshot = ctx.snapshot
    if SLICES in snapshot.kinds_read:
        return True
    unread = ctx.unread(SLICES)
    if unread is not None and unread.reason != "not-in-capture":
        return False
    return bool(snapshot.device_classes or snapshot.claims or snapshot.claim_templates or snapshot.pools)


def _ready(driver: Driver) -> int:
    if driver.ready is not None:
        return driver.ready
    return len(driver.ready_nodes or ())


def _none_at_all(ctx: Context, where: str, driver: str, version: str, ready: int) -> Finding:
    served = sorted(
        api.group_version for api in ctx.snapshot.apis if api.group_version.startswith("resource.k8s.io/")
    )
    text = tr("{workload} has {ready} ready Pods, and not one ResourceSlice", workload=where, ready=ready)
    if driver:
        text += " " + tr("of {driver} is there", driver=driver)
    else:
        text += " " + tr("is there that it could have published")
    if SLICES not in ctx.snapshot.kinds_read:
        text += "; " + tr("a list of ResourceSlices was not read, though")
    if served:
        text += "; " + tr("served: {versions}", versions=", ".join(served))
    advice = tr(
        "Check the API versions that driver version {version} supports, and read its log; the image does not tell them.",
        version=version or "?",
    )
    return finding(
        NO_SLICE_AT_ALL,
        text,
        component="driver",
        name=driver or where,
        severity="warning" if SLICES in ctx.snapshot.kinds_read or served else "info",
        preexisting=True,
        advice=advice,
        evidence=[
            Evidence(source=where, path="status.numberReady", value=str(ready), provenance="api object")
        ],
    )


def _on_nodes(ctx: Context, driver: Driver, bare: list[str]) -> Finding:
    text = tr(
        "{driver}: Pods of {workload} run on {nodes}, and no ResourceSlice is there",
        driver=driver.driver,
        workload=_where(driver.workload),
        nodes=names(bare),
    )
    hint = _kubelet_hint(ctx, bare, driver.nodes)
    return finding(
        NO_SLICE_ON_NODE,
        text + (f"; {hint}" if hint else ""),
        preexisting=True,
        component="driver",
        instances=bare,
        name=driver.driver,
        advice=tr(NO_SLICE_ON_NODE.remedy) + f" `{_log_command(driver, bare[0])}`",
        evidence=[_seen(driver, "Pods", node, "pod status") for node in bare[:20]],
    )


def _by_count(ctx: Context, driver: Driver, ready: int, published: set[str]) -> Finding:
    text = tr(
        "{driver}: {workload} is ready on {ready} nodes, slices are on {nodes} only",
        driver=driver.driver,
        workload=_where(driver.workload),
        ready=ready,
        nodes=names(published),
    )
    others = [node.name for node in ctx.snapshot.nodes if node.name not in published]
    hint = _kubelet_hint(ctx, others, sorted(published))
    return finding(
        NO_SLICE_ON_NODE,
        text + (f"; {hint}" if hint else ""),
        preexisting=True,
        component="driver",
        name=driver.driver,
        evidence=[_seen(driver, "status.numberReady", str(ready), "api object")],
    )


def _kubelet_hint(ctx: Context, without: list[str], with_slices: tuple[str, ...] | list[str]) -> str:
    """A word on the plugin API where every node without slices has a kubelet that dropped it, and one with has not."""

    def minors(nodes: tuple[str, ...] | list[str]) -> list[str]:
        found = [minor_of(ctx.nodes[name].kubelet_version) for name in nodes if name in ctx.nodes]
        return [minor for minor in found if minor is not None]

    gone, here = minors(without), minors(with_slices)
    limit = minor_key(_PLUGIN_API_GONE)
    if gone and here and all(minor_key(m) >= limit for m in gone) and all(minor_key(m) < limit for m in here):
        return tr(
            "slices are missing where the kubelet is {newer} and there where it is {older}: kubelet 1.34 dropped the plugin "
            "API v1alpha4. Which one the driver speaks cannot be read",
            newer=names(gone),
            older=names(here),
        )
    return ""


def _unlinked(ctx: Context) -> Iterator[Finding]:
    """Workloads that look like DRA drivers and for which no driver name is known."""
    for workload in ctx.snapshot.workloads:
        if workload.addon != "dra-driver":
            continue
        yield from _unlinked_label(workload)
        if not workload.ready:
            continue
        if not _slices_expected(ctx):
            continue
        ref = WorkloadRef(kind=workload.kind, namespace=workload.namespace, name=workload.name)
        yield _none_at_all(ctx, _where(ref), "", "", workload.ready)


def _unlinked_label(workload: Workload) -> Iterator[Finding]:
    label = workload.labels.get("app.kubernetes.io/version", "")
    tags = {c: tag for c, image in workload.images.items() if (tag := parse_image(image).tag)}
    if not label or not tags or any(_same(tag, label) for tag in tags.values()):
        return
    where = f"{workload.kind} {workload.namespace}/{workload.name}"
    yield finding(
        LABEL_LAGS,
        tr(
            "{workload}: its images are {images}, but app.kubernetes.io/version {label}",
            workload=where,
            images=", ".join(f"{container} {tag}" for container, tag in sorted(tags.items())),
            label=label,
        ),
        preexisting=True,
        component="driver",
        name=where,
        evidence=[Evidence(source=where, path="metadata.labels", value=label, provenance="label")],
    )


def _wishes(ctx: Context) -> Iterator[Finding]:
    drivers = {driver.driver: driver for driver in ctx.snapshot.drivers}
    for wish in ctx.profile.drivers:
        driver = drivers.get(wish.name)
        if driver is None:
            if SLICES in ctx.snapshot.kinds_read:
                yield finding(
                    WANTED_MISSING,
                    tr("The profile wants {driver}: nothing publishes or serves it", driver=wish.name),
                    component="driver",
                    name=wish.name,
                )
            continue
        wanted, today = VersionWish.parse(wish.version), try_version(driver.version)
        if wanted.version is not None and today is not None and _schemes_differ(today, wanted.version):
            yield finding(
                SCHEME,
                tr(
                    "{driver}: {today} and {target} follow different schemes; neither is older",
                    driver=wish.name,
                    today=driver.version,
                    target=wish.version,
                ),
                component="driver",
                name=wish.name,
            )
        if wish.nodes:
            try:
                nodes = {node.name for node in ctx.nodes_matching(wish.nodes)}
            except SelectorError:
                continue
            missing = sorted(nodes - set(driver.nodes))
            if missing and SLICES in ctx.snapshot.kinds_read:
                yield finding(
                    NODES_UNCOVERED,
                    tr(
                        "{driver}: {n} of {total} nodes with {selector} publish nothing: {nodes}",
                        driver=wish.name,
                        n=len(missing),
                        total=len(nodes),
                        selector=wish.nodes,
                        nodes=names(missing),
                    ),
                    component="driver",
                    instances=missing,
                    name=wish.name,
                )


def _schemes_differ(today: Version, wanted: Version) -> bool:
    return today.scheme != wanted.scheme


def _nodes(ctx: Context) -> Iterator[Finding]:
    if not ctx.snapshot.nodes:
        return
    strays: defaultdict[str, set[str]] = defaultdict(set)
    for pool in ctx.snapshot.pools:
        for piece in pool.slices:
            if piece.node and piece.node not in ctx.nodes:
                strays[piece.node].add(pool.driver)
    for node, drivers in sorted(strays.items()):
        yield finding(
            SLICE_NO_NODE,
            tr(
                "Slices of {drivers} name node {node}, which is not among the {n} Nodes read: stale, or outside of the capture",
                drivers=", ".join(sorted(drivers)),
                node=node,
                n=len(ctx.snapshot.nodes),
            ),
            preexisting=True,
            component="ResourceSlice",
            instances=[node],
            name=node,
        )


def _pools(ctx: Context) -> Iterator[Finding]:
    for pool in ctx.snapshot.pools:
        counted = sum(1 for piece in pool.slices if piece.counted)
        old = [piece.name for piece in pool.slices if not piece.counted]
        subject = f"{pool.driver}/{pool.name}"
        if not pool.complete:
            yield finding(
                INCOMPLETE,
                tr(
                    "Pool {pool} has {n} of {expected} slices of generation {generation}",
                    pool=subject,
                    n=counted,
                    expected=pool.expected_slices if pool.expected_slices is not None else "?",
                    generation=pool.generation,
                ),
                preexisting=True,
                component="pool",
                name=subject,
                evidence=[
                    Evidence(
                        source=piece.name,
                        path="spec.pool",
                        value=f"generation {piece.generation}",
                        provenance="api object",
                    )
                    for piece in pool.slices
                ],
            )
        if old:
            yield finding(
                OLD_GENERATION,
                tr("Pool {pool}: slices of an older generation: {slices}", pool=subject, slices=names(old)),
                component="pool",
                name=subject,
            )
