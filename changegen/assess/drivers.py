"""DRA drivers: versions that disagree, workloads and slices that do not belong together, pools that are not whole."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from changegen.assess.apis import served_at_target
from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, SelectorError, VersionWish, names
from changegen.assess.dra import driver_log, index
from changegen.assess.driver_apis import DriverRelease, Project, kubelet_speaks, release_of, same_tag
from changegen.assess.health import STANDARD
from changegen.i18n import tr, trn
from changegen.model.base import UNOBSERVABLE
from changegen.model.profile import DriverWish
from changegen.model.snapshot import Driver, Pool, Workload, WorkloadRef
from changegen.model.ticket import DriverRow, Evidence, Finding, PoolRow
from changegen.versions import Version, minor_key, minor_of, parse_image, try_version

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
API_GONE = Code(
    code="CG-DRIVER-011",
    title="Driver speaks no version of resource.k8s.io that is served",
    severity="blocking",
    others=("warning",),
    meaning="The release of a driver, by its image's name and tag, is built to publish slices and read claims with versions of "
    "resource.k8s.io of which the target serves none: its devices vanish, and no claim can be prepared. Read in the "
    "sources of the release (changegen/data/driver-apis.json).",
    remedy="Install a release of the driver that speaks resource.k8s.io/v1 before the API servers change. Serving the old "
    "version by --runtime-config helps only until it is removed.",
)
PLUGIN_API_GONE = Code(
    code="CG-DRIVER-012",
    title="Driver speaks no plugin API of the kubelet",
    severity="blocking",
    others=("warning",),
    meaning="The release of a driver, by its image's name and tag, registers only with plugin APIs that the kubelet of the target "
    "dropped: the kubelet refuses it, and no claim can be prepared on the node. Read in the sources of both.",
    remedy="Install a release of the driver that speaks v1 or v1beta1 of the plugin API before the kubelets change.",
)
CALL_GONE = Code(
    code="CG-DRIVER-013",
    title="Driver asks for an API version that is not served",
    severity="warning",
    others=("blocking",),
    meaning="The release of a driver can publish its slices, but its own code also asks for a version of resource.k8s.io that the "
    "target does not serve: what that code does fails, such as preparing claims or writing device taint rules.",
    remedy="Install a newer release of the driver, or serve the version by --runtime-config for as long as it exists.",
)
APIS_UNKNOWN = Code(
    code="CG-DRIVER-014",
    title="Not known which API versions a driver speaks",
    severity="info",
    meaning="The image is none of the releases whose sources were read: whether the driver speaks a version of resource.k8s.io "
    "and a plugin API of the target is not known. Neither can be read in the cluster.",
    remedy="Ask the driver's project whether this release speaks resource.k8s.io/v1, and v1 or v1beta1 of the kubelet's plugin "
    "API: both came with Kubernetes 1.34.",
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
    meaning="A pool has not as many slices of its newest generation as it says. The scheduler allocates nothing from it, and "
    "places no Pod with a request for all devices (mode All, of any driver) where a node that could run it has slices of "
    "the pool.",
    remedy="Wait for the driver, or read its log.",
)
OLD_GENERATION = Code(
    code="CG-SLICE-006",
    title="Slices of an older generation",
    severity="info",
    meaning="Slices of an older generation of a pool are still there; their devices do not count.",
    remedy="The driver deletes them; look at its log if they stay.",
)
INVALID = Code(
    code="CG-SLICE-007",
    title="Pool not valid",
    severity="warning",
    meaning="Slices of a pool contradict one another: two devices of one name, or a counter that no slice has. The scheduler "
    "allocates nothing from it, as with a pool that is not complete.",
    remedy="Read the driver's log; it is an error of the driver.",
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
    API_GONE,
    PLUGIN_API_GONE,
    CALL_GONE,
    APIS_UNKNOWN,
    NO_SLICE_ON_NODE,
    NO_SLICE_AT_ALL,
    SLICE_NO_POD,
    SLICE_NO_NODE,
    INCOMPLETE,
    OLD_GENERATION,
    INVALID,
)

SLICES: Final = "resourceslices.resource.k8s.io"
CLAIMS: Final = "resourceclaims.resource.k8s.io"
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
        if driver.workload is not None:
            notes.append(_speaks(driver))
        if driver.devices:
            notes.append(_standard(ctx, driver))
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


def _standard(ctx: Context, driver: Driver) -> str:
    """Which of the standard attributes its devices have: constraints over several drivers can match only these."""
    devices = [d for pool in ctx.snapshot.pools if pool.driver == driver.driver for d in pool.devices]
    shown = []
    for name in sorted(STANDARD):
        n = sum(name in device.attributes for device in devices)
        if n:
            short = name.rpartition("/")[2]
            shown.append(
                short
                if n == len(devices)
                else tr("{name} on {n} of {all}", name=short, n=n, all=len(devices))
            )
    if not shown:
        return tr("no standard attributes")
    return tr("standard attributes: {names}", names=", ".join(shown))


def _speaks(driver: Driver) -> str:
    known = release_of(driver.image, driver.version)
    if known is None:
        return tr("APIs that it speaks: not known")
    return tr(
        "speaks resource.k8s.io {resource}; kubelet plugin API {plugin}",
        resource=", ".join(known[1].resource),
        plugin=", ".join(known[1].plugin),
    )


def pool_rows(ctx: Context) -> tuple[PoolRow, ...]:
    """Devices of every pool: how many, allocated, tainted, and what keeps Pods from the node."""
    at = index(ctx)
    members: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for key in at.devices:
        counts = members[key.driver, key.pool]
        counts[0] += at.allocated(key)
        counts[1] += any(effect in {"NoSchedule", "NoExecute"} for _, _, effect, _ in at.taints(key))
    rows = []
    claims_read = CLAIMS in ctx.snapshot.kinds_read
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
                allocated=allocated if claims_read or allocated else None,
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
        yield from _apis(ctx, driver)
    yield from _apis_unknown(ctx)
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
        lags = driver.labels_version and not same_tag(driver.version, driver.labels_version)
        chart_lags = chart is not None and not same_tag(driver.version, chart[1])
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
            trn(
                "{driver}: driverVersion 0.0.0 on {n} device ({nodes}) means not reported",
                "{driver}: driverVersion 0.0.0 on {n} devices ({nodes}) means not reported",
                n=versions[UNREPORTED],
                driver=driver.driver,
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
                    "{driver}: {devices} on {nodes} published, and no workload that was read seems to serve it",
                    driver=driver.driver,
                    devices=trn("{n} device", "{n} devices", n=driver.devices),
                    nodes=trn("{n} node", "{n} nodes", n=len(driver.nodes)),
                ),
                component="driver",
                name=driver.driver,
                severity="warning" if read else "info",
            )
        return
    if driver.desired is not None and driver.ready is not None and driver.ready < driver.desired:
        unready = sorted(set(driver.pod_nodes or ()) - set(driver.ready_nodes or ()))
        text = trn(
            "{workload}: {ready} of {n} Pod is ready",
            "{workload}: {ready} of {n} Pods are ready",
            n=driver.desired,
            workload=_where(driver.workload),
            ready=driver.ready,
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


# --------------------------------------------------------------------------------------------------------- API versions


def _resource(versions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"resource.k8s.io/{version}" for version in versions)


def _any_served(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def _apis(ctx: Context, driver: Driver) -> Iterator[Finding]:
    """What the driver's release speaks, against what the API servers and kubelets of the target speak."""
    known = release_of(driver.image, driver.version)
    if known is None:
        return
    project, release = known
    wish = next((w for w in ctx.profile.drivers if w.name == driver.driver), None)
    later = _later(driver, wish)
    gone = _not_served(ctx, driver, project, release, later)
    if gone is not None:
        yield gone
    else:
        yield from _calls(ctx, driver, project, release, later)
    yield from _plugin_api(ctx, driver, project, release, later)


def _later(driver: Driver, wish: DriverWish | None) -> DriverRelease | None:
    """The release that the profile wants where that is another one, named exactly, and known."""
    wanted = VersionWish.parse(wish.version) if wish is not None and wish.version else None
    if wanted is None or wanted.operator != "=" or wish is None or same_tag(wish.version, driver.version):
        return None
    known = release_of(driver.image, wish.version)
    return known[1] if known is not None else None


def _cited(project: Project, release: DriverRelease) -> Evidence:
    return Evidence(
        source=f"{project.repository} {release.tag}",
        path="go.mod",
        value=f"k8s.io/dynamic-resource-allocation {release.helper}",
        provenance="driver's sources",
    )


def _not_served(
    ctx: Context, driver: Driver, project: Project, release: DriverRelease, later: DriverRelease | None
) -> Finding | None:
    versions = _resource(release.resource)
    answers = [served_at_target(ctx, version, "ResourceSlice") for version in versions]
    answer = _any_served(answers)
    if answer is True:
        return None
    today = _any_served([ctx.served(version, "ResourceSlice") for version in versions])
    text = tr(
        "{driver} {version} speaks {versions} only",
        driver=driver.driver,
        version=driver.version,
        versions=", ".join(versions),
    )
    if answer is False:
        text += ", " + tr("which the target does not serve")
    else:
        text += "; " + tr("whether the target serves it is not known, by default it does not")
    if today is False:
        text += "; " + tr("it is not served today either")
    mended = later is not None and any(
        served_at_target(ctx, v, "ResourceSlice") for v in _resource(later.resource)
    )
    if mended and later is not None:
        text += "; " + tr(
            "{version}, which the profile wants, speaks {versions}: it must come first",
            version=later.version,
            versions=", ".join(_resource(later.resource)),
        )
    return finding(
        API_GONE,
        text,
        component="driver",
        name=driver.driver,
        severity="blocking" if answer is False and today is not False and not mended else "warning",
        preexisting=today is False,
        evidence=[
            _seen(driver, "spec.template.spec.containers[].image", driver.image),
            _cited(project, release),
        ],
    )


def _calls(
    ctx: Context, driver: Driver, project: Project, release: DriverRelease, later: DriverRelease | None
) -> Iterator[Finding]:
    for call in release.calls:
        version = f"resource.k8s.io/{call.version}"
        answer = served_at_target(ctx, version, call.kind)
        if answer is True or (later is not None and call.version not in {c.version for c in later.calls}):
            continue
        today = ctx.served(version, call.kind)
        text = tr(
            "{driver} {version} asks for {kind} as {api} beside what its helper does",
            driver=driver.driver,
            version=driver.version,
            kind=call.kind,
            api=version,
        )
        if answer is False:
            text += "; " + tr("the target does not serve that")
        else:
            text += "; " + tr("whether the target serves that is not known, by default it does not")
        if today is False:
            text += "; " + tr("it is not served today either")
        # Without its rules a driver goes on; without claims it prepares nothing.
        stops = call.kind != "DeviceTaintRule" and answer is False and today is True
        yield finding(
            CALL_GONE,
            text,
            component="driver",
            name=f"{driver.driver} {call.kind}",
            severity="blocking" if stops else "warning",
            preexisting=today is False,
            evidence=[
                Evidence(
                    source=f"{project.repository} {release.tag}",
                    path=call.file,
                    value=f"{version} {call.kind}",
                    provenance="driver's sources",
                )
            ],
        )


def _plugin_api(
    ctx: Context, driver: Driver, project: Project, release: DriverRelease, later: DriverRelease | None
) -> Iterator[Finding]:
    on = set(driver.pod_nodes if driver.pod_nodes is not None else driver.nodes)
    refused: defaultdict[str, list[str]] = defaultdict(list)
    already: set[str] = set()
    for kubelet in ctx.of("kubelet"):
        node = kubelet.node or ""
        now = ctx.version_of(kubelet)
        today = now.minor_version if now is not None else None
        target = today if ctx.stays(kubelet) else minor_of(ctx.goes_to("kubelet")) or today
        spoken = kubelet_speaks(target)
        if node not in on or spoken is None or target is None or set(spoken) & set(release.plugin):
            continue
        refused[target].append(node)
        before = kubelet_speaks(today)
        if before is not None and not set(before) & set(release.plugin):
            already.add(node)
    for minor, nodes in sorted(refused.items()):
        spoken = kubelet_speaks(minor) or ()
        mended = later is not None and bool(set(later.plugin) & set(spoken))
        text = tr(
            "{driver} {version} registers with plugin API {plugin}; the kubelet of {minor} on {nodes} speaks {spoken} only",
            driver=driver.driver,
            version=driver.version,
            plugin=", ".join(release.plugin),
            minor=minor,
            nodes=names(nodes),
            spoken=", ".join(spoken),
        )
        if mended and later is not None:
            text += "; " + tr(
                "{version}, which the profile wants, speaks {versions}: it must come first",
                version=later.version,
                versions=", ".join(later.plugin),
            )
        yield finding(
            PLUGIN_API_GONE,
            text,
            component="driver",
            instances=nodes,
            name=driver.driver,
            severity="warning" if mended or set(nodes) <= already else "blocking",
            preexisting=set(nodes) <= already,
            evidence=[
                _seen(driver, "spec.template.spec.containers[].image", driver.image),
                _cited(project, release),
            ],
        )


def _apis_unknown(ctx: Context) -> Iterator[Finding]:
    """Drivers of which nothing is known, where the control plane goes to another minor, or may."""
    if ctx.target is None or (ctx.today is not None and not ctx.path):
        return
    unknown = [
        driver
        for driver in ctx.snapshot.drivers
        if driver.workload is not None and release_of(driver.image, driver.version) is None
    ]
    if unknown:
        shown = names(
            f"{driver.driver} {driver.image.rpartition('/')[2] or driver.version}" for driver in unknown
        )
        yield finding(
            APIS_UNKNOWN,
            tr(
                "Which versions of resource.k8s.io and of the plugin API these speak is not known: {drivers}",
                drivers=shown,
            ),
            component="driver",
            instances=[driver.driver for driver in unknown],
            evidence=[
                _seen(driver, "spec.template.spec.containers[].image", driver.image)
                for driver in unknown[:20]
            ],
        )


def _coverage(ctx: Context, driver: Driver) -> Iterator[Finding]:
    if driver.workload is None or not _slices_expected(ctx):
        return
    ready = _ready(driver)
    published = set(driver.nodes)
    anywhere = any(pool.driver == driver.driver for pool in ctx.snapshot.pools)
    if ready and not anywhere:
        yield _none_at_all(ctx, _where(driver.workload), driver.driver, driver.version, driver.image, ready)
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


def _none_at_all(ctx: Context, where: str, driver: str, version: str, image: str, ready: int) -> Finding:
    served = sorted(
        api.group_version for api in ctx.snapshot.apis if api.group_version.startswith("resource.k8s.io/")
    )
    text = trn(
        "{workload} has {n} ready Pod, and not one ResourceSlice",
        "{workload} has {n} ready Pods, and not one ResourceSlice",
        n=ready,
        workload=where,
    )
    if driver:
        text += " " + tr("of {driver} is there", driver=driver)
    else:
        text += " " + tr("is there that it could have published")
    if SLICES not in ctx.snapshot.kinds_read:
        text += "; " + tr("a list of ResourceSlices was not read, though")
    if served:
        text += "; " + tr("served: {versions}", versions=", ".join(served))
    known = release_of(image, version)
    if known is None:
        advice = tr(
            "Check the API versions that driver version {version} supports, and read its log; the image does not tell them.",
            version=version or "?",
        )
    else:
        advice = tr(
            "Driver version {version} speaks {versions} ({source}): compare them with those served, and read its log.",
            version=version,
            versions=", ".join(_resource(known[1].resource)),
            source=f"{known[0].repository} {known[1].tag}",
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
        advice=tr(NO_SLICE_ON_NODE.remedy) + f" `{driver_log(driver, bare[0])}`",
        evidence=[_seen(driver, "Pods", node, "pod status") for node in bare[:20]],
    )


def _by_count(ctx: Context, driver: Driver, ready: int, published: set[str]) -> Finding:
    text = trn(
        "{driver}: {workload} is ready on {n} node, slices are on {nodes} only",
        "{driver}: {workload} is ready on {n} nodes, slices are on {nodes} only",
        n=ready,
        driver=driver.driver,
        workload=_where(driver.workload),
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
        yield _none_at_all(ctx, _where(ref), "", "", "", workload.ready)


def _unlinked_label(workload: Workload) -> Iterator[Finding]:
    label = workload.labels.get("app.kubernetes.io/version", "")
    tags = {c: tag for c, image in workload.images.items() if (tag := parse_image(image).tag)}
    if not label or not tags or any(same_tag(tag, label) for tag in tags.values()):
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
                    trn(
                        "{driver}: {missing} of {n} node with {selector} publishes nothing: {nodes}",
                        "{driver}: {missing} of {n} nodes with {selector} publish nothing: {nodes}",
                        n=len(nodes),
                        driver=wish.name,
                        missing=len(missing),
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
                "Slices of {drivers} name node {node}, which is not among the Nodes read ({n}): stale, or outside of the capture",
                drivers=", ".join(sorted(drivers)),
                node=node,
                n=len(ctx.snapshot.nodes),
            ),
            preexisting=True,
            component="Node",
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
                trn(
                    "Pool {pool} has {counted} of {n} slice of generation {generation}",
                    "Pool {pool} has {counted} of {n} slices of generation {generation}",
                    n=pool.expected_slices or 0,
                    pool=subject,
                    counted=counted,
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
        why = index(ctx).invalid.get((pool.driver, pool.name))
        if why:
            yield finding(
                INVALID,
                tr("Pool {pool}: {why}", pool=subject, why=why),
                preexisting=True,
                component="pool",
                name=subject,
            )
        if old:
            yield finding(
                OLD_GENERATION,
                tr("Pool {pool}: slices of an older generation: {slices}", pool=subject, slices=names(old)),
                component="pool",
                name=subject,
            )
