"""Findings, changes and the ticket: the plan as a value. All renderings are made from it.

Text fields hold words of the ticket's language (``Ticket.lang``); commands, names and codes never change with it.
"""

from __future__ import annotations

from typing import Literal

from changegen.model.base import Model, Scalar
from changegen.model.profile import Profile
from changegen.model.snapshot import Snapshot

SCHEMA: Literal["changegen.ticket/v1"] = "changegen.ticket/v1"
RESULTS_SCHEMA: Literal["changegen.results/v1"] = "changegen.results/v1"

Severity = Literal["blocking", "warning", "info"]
Layer = Literal["api", "scheduling", "device", "runtime"]
Verdict = Literal["reversible", "reversible-until", "one-way"]
Phase = Literal["before", "control-plane", "nodes", "drivers", "after"]


class Evidence(Model, frozen=True, kw_only=True):
    """Where a fact of a finding was seen."""

    source: str
    """File or request."""
    path: str = ""
    """Field in it, or object."""
    value: str = ""
    provenance: str


class Subject(Model, frozen=True, kw_only=True):
    """What a finding is about."""

    component: str = ""
    """kube-apiserver … or a kind: Node, ResourceSlice, PodDisruptionBudget, driver …"""
    instances: tuple[str, ...] = ()
    name: str = ""
    """Gate, taint, API, resource: the thing within."""


class Acceptance(Model, frozen=True, kw_only=True):
    """A finding that the profile accepts; it stays visible."""

    reason: str
    owner: str
    until: str
    expired: bool = False


class Finding(Model, frozen=True, kw_only=True):
    """One thing that a reader must know."""

    id: str
    """Stable within a ticket: code and subject, ``F-01`` style when printed."""
    code: str
    severity: Severity
    subject: Subject
    title: str
    message: str
    evidence: tuple[Evidence, ...] = ()
    remedy: tuple[str, ...] = ()
    """Ids of steps."""
    advice: str = ""
    """What to do, in words, where no step can be generated."""
    checks: tuple[str, ...] = ()
    rollback: tuple[str, ...] = ()
    accepted: Acceptance | None = None
    preexisting: bool = False
    """True: a fault that was there before the change, so that the change is not blamed."""
    hop: str = ""
    """``1.36 -> 1.37``: the minor step that it belongs to; empty where it belongs to none."""


class Change(Model, frozen=True, kw_only=True):
    """One difference, grouped when equal."""

    kind: Literal["added", "removed", "changed"]
    area: str
    """components, nodes, drivers, devices, claims, …"""
    path: tuple[str, ...]
    """Field path below the subject, never a string to be parsed."""
    subjects: tuple[str, ...]
    """Identities by meaning: ``kube-apiserver cp-1``, ``gpu.example.com/gpu-1/gpu-0``; sorted."""
    before: Scalar | tuple[Scalar, ...] | dict[str, Scalar] = None
    after: Scalar | tuple[Scalar, ...] | dict[str, Scalar] = None
    count: int = 1
    note: str = ""


class NotComparable(Model, frozen=True, kw_only=True):
    """What was readable on one side only: never reported as vanished."""

    area: str
    what: str
    side: Literal["before", "after", "both"]
    reason: str


class Comparison(Model, frozen=True, kw_only=True):
    """The result of diff."""

    schema: Literal["changegen.diff/v1"] = "changegen.diff/v1"
    before: str
    after: str
    before_digest: str
    after_digest: str
    changes: tuple[Change, ...] = ()
    not_comparable: tuple[NotComparable, ...] = ()


class Command(Model, frozen=True, kw_only=True):
    """A command to paste; ``where`` is the node or ``any machine with kubectl``."""

    text: str
    where: str = ""
    runs: Literal["read", "write"] = "read"


class Step(Model, frozen=True, kw_only=True):
    """One step of the plan."""

    id: str
    """``P-1`` (before), ``I-3`` (implementation), ``A-2`` (after)."""
    phase: Phase
    title: str
    why: str = ""
    commands: tuple[Command, ...] = ()
    nodes: tuple[str, ...] = ()
    minutes: int | None = None
    """Estimate from counts; None: not estimated."""
    go_on: str = ""
    """What must be true to go on."""
    stop: str = ""
    """What means stop."""
    checks: tuple[str, ...] = ()
    rollback: tuple[str, ...] = ()
    """Ids of the steps back that undo it."""
    used_by: tuple[str, ...] = ()
    """Ids of the steps back that need what it makes: a preparation undoes nothing and is not undone."""
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    no_return: bool = False
    """Once this step has started there is no simple way back: decide before it."""
    hop: str = ""
    """``1.36 -> 1.37`` when several minors are in one ticket."""
    partial: dict[str, tuple[str, ...]] = {}
    """Check -> the keys of its value (nodes, pools) that must be as expected when this step ends; the others come with
    later steps. A check that is not in it must hold as a whole."""

    @property
    def shown_checks(self) -> tuple[str, ...]:
        """The checks as they are printed: ``V-3 (cp-1)`` where only a part of it can hold yet; of many keys six."""
        most = 6
        return tuple(
            f"{check} ({', '.join(part[:most])}{' …' if len(part) > most else ''})"
            if (part := self.partial.get(check))
            else check
            for check in self.checks
        )


class Query(Model, frozen=True, kw_only=True):
    """The field that a check compares: the same thing that its command prints.

    ``fact`` names a function of the table in changegen.facts; ``args`` are its arguments. The command is made from
    the same table row, and its parsed output equals what the fact gives for the same cluster.
    """

    fact: str
    args: dict[str, Scalar | tuple[str, ...]] = {}


class Check(Model, frozen=True, kw_only=True):
    """One line of the verification checklist."""

    id: str
    layer: Layer
    title: str
    command: str
    """Empty where nobody can print one; then ``manual`` says what to look at."""
    query: Query | None = None
    before: Scalar | tuple[Scalar, ...] | dict[str, Scalar] = None
    before_known: bool = True
    expected: Scalar | tuple[Scalar, ...] | dict[str, Scalar] = None
    compare: Literal[
        "equals", "at-least", "at-most", "contains", "same-as-before", "filled", "version", "absent", "manual"
    ] = "equals"
    """at-least, at-most: numbers by size, a map key by key, a tuple by its members (at-most: nothing that was not expected)."""
    manual: str = ""
    reads_as: str = ""
    """How a person reads what the command prints, where that is not the expected value itself."""
    wait_seconds: int = 0
    steps: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    source: Literal["plan", "profile"] = "plan"


class CheckResult(Model, frozen=True, kw_only=True):
    """A filled line of the checklist."""

    id: str
    result: Literal["pass", "fail", "unknown", "attested"]
    actual: Scalar | tuple[Scalar, ...] | dict[str, Scalar] = None
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""
    attested_by: str = ""


class RollbackStep(Model, frozen=True, kw_only=True):
    """One step back, in order."""

    id: str
    order: int
    what: str
    to: str
    """The previous value, from the snapshot."""
    commands: tuple[Command, ...] = ()
    verdict: Verdict
    until: str = ""
    """reversible-until: the point."""
    why: str = ""
    lost: str = ""
    """What is lost or stops working."""
    minutes: int | None = None
    """None: nothing can be done, or nobody can tell how long it takes."""
    nodes: tuple[str, ...] = ()
    """Nodes that it concerns, in the order in which they go back."""
    guard: str = ""
    """What must be true before its first command; else stop."""
    go_on: str = ""
    """What must be seen before the next node, or the next step."""
    stop: str = ""
    """What means stop."""
    needed_once: tuple[str, ...] = ()
    """Ids of the steps of the plan that make it necessary: none of them ran, nothing to do here."""


class RollbackFork(Model, frozen=True, kw_only=True):
    """One way through the rollback: where the change stopped, which steps back in which order, and which never."""

    when: str
    """Where the change stopped, in words."""
    ran: tuple[str, ...] = ()
    """Ids of the steps of the plan that ran there, wholly or in part."""
    etcd: Literal["", "old", "new"] = ""
    """old: a member still runs the minor of before · new: none does any more · empty: it makes no difference."""
    do: tuple[str, ...] = ()
    """Ids of steps back, in order."""
    never: tuple[str, ...] = ()
    """Ids of steps back that would do harm there."""
    stays: tuple[str, ...] = ()
    """Ids of steps back that cannot or must not be done there: what they would take back stays as the change left it."""
    fault: bool = False
    """Whether it is for a fault of etcd itself, or of its data: more than the ordinary way back."""
    minutes: int | None = None
    """Of all that is to do; None: nobody can tell."""
    note: str = ""


class ForecastRow(Model, frozen=True, kw_only=True):
    """What the target does to one gate (or flag, or API) of some component instances."""

    kind: Literal["gate", "flag", "api", "runtime-config"]
    name: str
    component: str
    instances: tuple[str, ...]
    today: str
    """``true`` (set), ``false (default)``, ``unobservable`` …"""
    at_target: str
    effect: Literal[
        "will-not-start",
        "locked-same",
        "flips-on",
        "flips-off",
        "new-on",
        "stage",
        "redundant",
        "unchanged",
        "unknown",
    ]
    message: str = ""
    provenance: str = ""
    touches: str = ""
    """What of this cluster it touches; empty: nothing that was read."""
    stage_today: str = ""
    stage_target: str = ""
    hop: str = ""


class InstanceRow(Model, frozen=True, kw_only=True):
    """Current against target for one component instance."""

    component: str
    instance: str
    node: str
    current: str
    proven: bool
    target: str
    action: Literal["upgrade", "none", "stays", "unknown", "ahead"]
    allowed_skew: str = ""
    note: str = ""


class PoolRow(Model, frozen=True, kw_only=True):
    """Devices of one pool, for tables and figures."""

    driver: str
    pool: str
    node: str
    devices: int
    allocated: int | None
    """None: ResourceClaims were not read."""
    tainted: int
    behind_node_taint: str = ""
    driver_versions: str = ""


class BlastRow(Model, frozen=True, kw_only=True):
    """Who holds devices, by workload."""

    owner: str
    namespace: str
    pods: tuple[str, ...]
    nodes: tuple[str, ...]
    devices: int | None
    """None: they hold claims, and ResourceClaims were not read."""
    resources: tuple[str, ...]
    comes_back: bool
    disruption: str = ""
    """What a budget says."""


class TaintRow(Model, frozen=True, kw_only=True):
    """A node taint, a device taint in a slice, or a rule."""

    kind: Literal["node", "device", "rule"]
    subject: str
    key: str
    value: str
    effect: str
    today: str = ""
    at_target: str = ""


class CapacityRow(Model, frozen=True, kw_only=True):
    """What is left when one node is out."""

    node: str
    resource: str
    displaced: int
    free_elsewhere: int
    pending: int
    """Pods that get no place elsewhere."""
    undecided: int = 0
    """Further Pods of which that cannot be told; ``why`` says what is not known."""
    why: str = ""
    pods: tuple[str, ...] = ()


class Field(Model, frozen=True, kw_only=True):
    """A field for people."""

    name: str
    label: str
    value: str = ""
    who: str = ""
    """Who must fill it."""
    required: bool = True
    source: Literal["", "profile", "set", "tool"] = ""


class InputDigest(Model, frozen=True, kw_only=True):
    """An input of the ticket."""

    what: Literal["snapshot", "profile", "kubernetes-data", "template", "tool", "ticket", "runtime-evidence"]
    name: str
    sha256: str = ""
    note: str = ""


class DriverRow(Model, frozen=True, kw_only=True):
    """Driver against target."""

    driver: str
    workload: str
    version: str
    version_source: str
    target: str
    labels: str
    device_versions: str
    nodes: int
    devices: int
    note: str = ""


class ResourceRow(Model, frozen=True, kw_only=True):
    """An extended resource and who serves it."""

    resource: str
    source: str
    device_class: str
    by_node: dict[str, str] = {}
    pods: int = 0
    pending: int = 0
    verdict: Literal["", "go", "no-go", "cannot-tell"] = ""
    why: str = ""


class FeatureRow(Model, frozen=True, kw_only=True):
    """Capability of the combination for one DRA feature."""

    feature: str
    stage: str
    verdict: Literal["ready", "not-ready", "cannot-tell"]
    missing: tuple[str, ...] = ()
    wanted: bool = False


class MonitorRow(Model, frozen=True, kw_only=True):
    """A signal to watch, with its value before when known."""

    signal: str
    query: str
    baseline: str = ""
    stop_when: str = ""


class Hop(Model, frozen=True, kw_only=True):
    """One minor step."""

    from_version: str
    to_version: str
    blockers: int = 0


class Ticket(Model, frozen=True, kw_only=True):
    """The change ticket."""

    schema: Literal["changegen.ticket/v1"] = SCHEMA
    tool_version: str
    lang: str = "en"
    generated_at: str = ""
    """Time of the snapshot or ``--now``; never the clock by itself."""
    captured_at: str = ""
    captured_at_inferred: bool = False
    title: str
    cluster_name: str = ""
    cluster_uid: str = ""
    distribution: str = ""
    from_version: str = ""
    to_version: str = ""
    hops: tuple[Hop, ...] = ()
    decision: Literal["do-not-start", "attention", "ready", "cannot-tell"]
    headline: str
    facts: dict[str, str] = {}
    """First-page table in order of insertion: what, cluster, risk, blast radius, way back, not known, …"""
    risk: str = ""
    counts: dict[str, int] = {}
    data_age: str = ""
    warnings: tuple[str, ...] = ()
    """Said at the head: target newer than the data, incomplete reading, mixed versions."""
    findings: tuple[Finding, ...] = ()
    changes: tuple[Change, ...] = ()
    """What the change will alter: current to target."""
    instances: tuple[InstanceRow, ...] = ()
    forecast: tuple[ForecastRow, ...] = ()
    drivers: tuple[DriverRow, ...] = ()
    resources: tuple[ResourceRow, ...] = ()
    features: tuple[FeatureRow, ...] = ()
    pools: tuple[PoolRow, ...] = ()
    taints: tuple[TaintRow, ...] = ()
    blast: tuple[BlastRow, ...] = ()
    capacity: tuple[CapacityRow, ...] = ()
    steps: tuple[Step, ...] = ()
    checks: tuple[Check, ...] = ()
    rollback: tuple[RollbackStep, ...] = ()
    rollback_forks: tuple[RollbackFork, ...] = ()
    rollback_looks: tuple[Command, ...] = ()
    """What to look at before a line is chosen: commands that only read."""
    rollback_looks_say: str = ""
    """What their answers mean."""
    """First thing to read when going back: the line that fits, and no other."""
    rollback_decide_by: str = ""
    monitoring: tuple[MonitorRow, ...] = ()
    fields: tuple[Field, ...] = ()
    unobserved: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    other_parts: dict[str, str] = {}
    """CNI, CSI, cloud controller, autoscaler, runtime with versions; ``support unknown``."""
    requests: tuple[str, ...] = ()
    inputs: tuple[InputDigest, ...] = ()
    snapshot_digest: str = ""
    content_digest: str = ""
    """SHA-256 of this ticket's canonical JSON with this field empty; ``verify`` refuses a ticket that was edited."""
    snapshot: Snapshot | None = None
    """The reading that the ticket was made from: verify compares against it."""
    profile: Profile | None = None
    """The resolved profile, for the same reason."""


class Deviation(Model, frozen=True, kw_only=True):
    """A line of the closing report."""

    what: str
    before: str = ""
    planned: str = ""
    actual: str = ""
    count: int = 1
    subjects: tuple[str, ...] = ()
    why: str = ""
    code: str = ""
    """``follows``: the consequence of something planned · ``with``: of another unplanned change · empty: the thing itself."""
    steps: tuple[str, ...] = ()
    """Ids of the steps of the plan that do it; empty where it was not planned, or no step says so."""


class StepWord(Model, frozen=True, kw_only=True):
    """A step that somebody says was done: their word, which no reading proves."""

    id: str
    title: str
    by: str
    note: str = ""
    against: str = ""
    """What the second reading says against it; empty: nothing."""


class Results(Model, frozen=True, kw_only=True):
    """What verify found."""

    schema: Literal["changegen.results/v1"] = RESULTS_SCHEMA
    tool_version: str
    lang: str = "en"
    ticket_digest: str
    before_digest: str
    after_digest: str
    cluster_uid: str = ""
    captured_at: str = ""
    outcome: Literal["passed", "failed", "incomplete"]
    headline: str
    counts: dict[str, int] = {}
    checks: tuple[Check, ...] = ()
    results: tuple[CheckResult, ...] = ()
    done: tuple[Deviation, ...] = ()
    """planned and done"""
    not_done: tuple[Deviation, ...] = ()
    """planned and not done"""
    unplanned: tuple[Deviation, ...] = ()
    """done and not planned"""
    unknown: tuple[Deviation, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Assessment of the after state."""
    times: dict[str, str] = {}
    ticked: tuple[StepWord, ...] = ()
    """Steps that people ticked in the ticket's PDF; they count for nothing."""
    not_comparable: tuple[NotComparable, ...] = ()
