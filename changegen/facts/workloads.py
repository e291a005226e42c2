"""Facts of workloads and their disruption budgets."""

from __future__ import annotations

from changegen.facts.base import (
    Args,
    Fact,
    Reading,
    arg,
    as_int,
    in_filter,
    kubectl_get,
    lacking,
    printed_nothing,
    read_rows,
    seen_in,
    unknown,
)
from changegen.i18n import tr
from changegen.model.snapshot import DisruptionBudget, Snapshot, Workload
from changegen.model.ticket import Evidence
from changegen.shell import quoted


def _workload_kind(args: Args) -> str:
    return arg(args, "kind").lower()


def _plural(args: Args) -> str:
    return f"{_workload_kind(args)}s.apps"


def _find_workload(snapshot: Snapshot, args: Args) -> Workload | Reading:
    if lack := lacking(snapshot, _plural(args), namespace=arg(args, "namespace")):
        return lack
    for item in snapshot.workloads:
        if (item.kind, item.namespace, item.name) == (
            arg(args, "kind"),
            arg(args, "namespace"),
            arg(args, "name"),
        ):
            return item
    return unknown(
        tr(
            "{kind} {namespace}/{name} was not seen",
            kind=arg(args, "kind"),
            namespace=arg(args, "namespace"),
            name=arg(args, "name"),
        )
    )


def _one_workload(args: Args) -> str:
    return f"-n {quoted(arg(args, 'namespace'))} {_workload_kind(args)} {quoted(arg(args, 'name'))}"


def _image_command(args: Args) -> str:
    container = in_filter(arg(args, "container"))
    return kubectl_get(
        _one_workload(args), f"{{.spec.template.spec.containers[?(@.name=={container})].image}}"
    )


def _image_parse(output: str, _args: Args) -> Reading:
    image = output.strip()
    return Reading(value=image) if image else printed_nothing()


def _image(snapshot: Snapshot, args: Args) -> Reading:
    found = _find_workload(snapshot, args)
    if isinstance(found, Reading):
        return found
    image = found.images.get(arg(args, "container"))
    if not image:
        return unknown(tr("it has no container {name}", name=arg(args, "container")))
    seen = seen_in(
        f"{found.kind} {found.namespace}/{found.name}", "spec.template", image, "workload template"
    )
    return Reading(value=image, evidence=(seen,))


_COUNTS = {
    "DaemonSet": (".status.desiredNumberScheduled", ".status.numberReady"),
    "Deployment": (".spec.replicas", ".status.readyReplicas"),
    "StatefulSet": (".spec.replicas", ".status.readyReplicas"),
}


def _missing_command(args: Args) -> str:
    wanted, ready = _COUNTS[arg(args, "kind")]
    return kubectl_get(_one_workload(args), f'{{{wanted}}}{{"\\t"}}{{{ready}}}{{"\\n"}}')


def _missing_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 2)
    if not rows or not rows[0][0].strip():
        return printed_nothing()
    return Reading(value=max(0, as_int(rows[0][0]) - as_int(rows[0][1])))


def _missing(snapshot: Snapshot, args: Args) -> Reading:
    found = _find_workload(snapshot, args)
    if isinstance(found, Reading):
        return found
    wanted = found.desired if found.kind == "DaemonSet" else found.replicas
    if wanted is None:
        wanted = found.replicas if found.replicas is not None else found.desired
    if wanted is None:
        return unknown(tr("its status was not read"))
    ready = found.ready or 0
    seen = seen_in(
        f"{found.kind} {found.namespace}/{found.name}", "status", f"{ready}/{wanted}", "api object"
    )
    return Reading(value=max(0, wanted - ready), evidence=(seen,))


def _find_budget(snapshot: Snapshot, args: Args) -> DisruptionBudget | Reading:
    if lack := lacking(snapshot, "poddisruptionbudgets.policy", namespace=arg(args, "namespace")):
        return lack
    for item in snapshot.disruption_budgets:
        if (item.namespace, item.name) == (arg(args, "namespace"), arg(args, "name")):
            return item
    return unknown(tr("the PodDisruptionBudget is not there"))


def _one_budget(args: Args) -> str:
    return f"-n {quoted(arg(args, 'namespace'))} poddisruptionbudget {quoted(arg(args, 'name'))}"


def _budget_seen(budget: DisruptionBudget, path: str, value: object) -> Evidence:
    return seen_in(f"PodDisruptionBudget {budget.namespace}/{budget.name}", path, value, "api object")


def _budget_command(args: Args) -> str:
    return kubectl_get(_one_budget(args), "{.status.disruptionsAllowed}")


def _budget_parse(output: str, _args: Args) -> Reading:
    text = output.strip()
    return Reading(value=int(text)) if text.isdigit() else printed_nothing()


def _budget(snapshot: Snapshot, args: Args) -> Reading:
    found = _find_budget(snapshot, args)
    if isinstance(found, Reading):
        return found
    allowed = found.disruptions_allowed
    if allowed is None:
        return unknown(tr("its status was not read"))
    return Reading(value=allowed, evidence=(_budget_seen(found, "status.disruptionsAllowed", allowed),))


def _limit_command(args: Args) -> str:
    return kubectl_get(
        _one_budget(args),
        '{.metadata.name}{"\\t"}{.spec.minAvailable}{"\\t"}{.spec.maxUnavailable}{"\\n"}',
    )


def _limit_text(minimum: str, maximum: str) -> str:
    return f"minAvailable {minimum}" if minimum else f"maxUnavailable {maximum}" if maximum else "none"


def _limit_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 3)
    return Reading(value=_limit_text(rows[0][1], rows[0][2])) if rows else printed_nothing()


def _limit(snapshot: Snapshot, args: Args) -> Reading:
    found = _find_budget(snapshot, args)
    if isinstance(found, Reading):
        return found
    value = _limit_text(found.min_available, found.max_unavailable)
    return Reading(value=value, evidence=(_budget_seen(found, "spec", value),))


ROWS: tuple[Fact, ...] = (
    Fact(
        name="workload.image",
        layer="scheduling",
        title=lambda a: tr(
            "Image of {kind} {namespace}/{name}", kind=a["kind"], namespace=a["namespace"], name=a["name"]
        ),
        command=_image_command,
        evaluate=_image,
        parse=_image_parse,
    ),
    Fact(
        name="workload.not-ready",
        layer="scheduling",
        title=lambda a: tr(
            "{kind} {namespace}/{name}: Pods that are not ready",
            kind=a["kind"],
            namespace=a["namespace"],
            name=a["name"],
        ),
        command=_missing_command,
        evaluate=_missing,
        parse=_missing_parse,
    ),
    Fact(
        name="budget.allowed",
        layer="scheduling",
        title=lambda a: tr(
            "Disruptions that PodDisruptionBudget {namespace}/{name} allows",
            namespace=a["namespace"],
            name=a["name"],
        ),
        command=_budget_command,
        evaluate=_budget,
        parse=_budget_parse,
        reads=("poddisruptionbudgets.policy",),
    ),
    Fact(
        name="budget.limit",
        layer="scheduling",
        title=lambda a: tr(
            "Limit of PodDisruptionBudget {namespace}/{name}", namespace=a["namespace"], name=a["name"]
        ),
        command=_limit_command,
        evaluate=_limit,
        parse=_limit_parse,
        reads=("poddisruptionbudgets.policy",),
    ),
)
"""The rows of this module, in the order of the table."""
