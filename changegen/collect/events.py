"""Events that a reader of a ticket may need, and the leases of kube-system.

Events are told apart by type, reason, object and source only: their wording changes between minors.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from changegen.collect.inventory import Inventory
from changegen.collect.wire import ObjectMeta, Wire
from changegen.model.snapshot import EventFact, Lease

__all__ = ["DEVICE_KINDS", "DEVICE_REASONS", "event_facts", "lease_facts"]

DEVICE_KINDS: Final = frozenset(
    {
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceSlice",
        "DeviceClass",
        "DeviceTaintRule",
        "ResourcePoolStatusRequest",
    }
)
DEVICE_REASONS: Final = frozenset(
    {"DeviceTaintManagerEviction", "FailedPrepareDynamicResources", "FailedResourceClaimCreation"}
)
"""Reasons of the device taint manager, the kubelet's DRA manager and the claim controller that matter at any type."""


class ObjectRef(Wire, frozen=True, kw_only=True):
    """involvedObject or regarding."""

    kind: str = ""
    namespace: str | None = None
    name: str = ""


class EventSource(Wire, frozen=True, kw_only=True):
    """source of core/v1."""

    component: str | None = None
    host: str | None = None


class Series(Wire, frozen=True, kw_only=True):
    """series of both versions."""

    count: int | None = None
    last_observed_time: str | None = None


class Event(Wire, frozen=True, kw_only=True):
    """An event of core/v1 or events.k8s.io/v1: one type for both shapes."""

    metadata: ObjectMeta = ObjectMeta()
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    note: str | None = None
    involved_object: ObjectRef | None = None
    regarding: ObjectRef | None = None
    source: EventSource | None = None
    deprecated_source: EventSource | None = None
    reporting_component: str | None = None
    reporting_controller: str | None = None
    count: int | None = None
    deprecated_count: int | None = None
    series: Series | None = None
    last_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def target(self) -> ObjectRef:
        """What the event is about."""
        return self.involved_object or self.regarding or ObjectRef()


class LeaseSpec(Wire, frozen=True, kw_only=True):
    """spec of a Lease."""

    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class WireLease(Wire, frozen=True, kw_only=True):
    """A Lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec | None = None


class _Group(msgspec.Struct):
    count: int = 0
    last: str = ""
    message: str = ""


def event_facts(inv: Inventory) -> tuple[EventFact, ...]:
    """Warning events and all about devices; one row for each type, reason, object and source."""
    groups: defaultdict[tuple[str, ...], _Group] = defaultdict(_Group)
    for kind in ("events", "events.events.k8s.io"):
        for item in inv.all(kind, Event):
            event = item.obj
            target = event.target
            reason = event.reason or ""
            if event.type != "Warning" and target.kind not in DEVICE_KINDS and reason not in DEVICE_REASONS:
                continue
            source = event.source or event.deprecated_source or EventSource()
            key = (
                event.type or "",
                reason,
                target.kind,
                target.namespace or "",
                target.name,
                source.component or event.reporting_component or event.reporting_controller or "",
                source.host or "",
            )
            series = event.series or Series()
            last = (
                series.last_observed_time
                or event.last_timestamp
                or event.deprecated_last_timestamp
                or event.event_time
                or event.metadata.creation_timestamp
                or ""
            )
            group = groups[key]
            group.count += series.count or event.count or event.deprecated_count or 1
            if last >= group.last:
                group.last = last
                group.message = event.message or event.note or group.message
    return tuple(
        EventFact(
            type=key[0],
            reason=key[1],
            kind=key[2],
            namespace=key[3],
            name=key[4],
            source=key[5],
            node=key[6],
            message=group.message,
            count=group.count,
            last=group.last,
        )
        for key, group in sorted(groups.items())
    )


def lease_facts(inv: Inventory) -> tuple[Lease, ...]:
    """Leases of kube-system: leaders, and identities of apiservers."""
    rows = []
    for item in inv.all("leases.coordination.k8s.io", WireLease):
        meta = item.obj.metadata
        if item.namespace != "kube-system":
            continue
        labels = meta.labels or {}
        spec = item.obj.spec or LeaseSpec()
        rows.append(
            Lease(
                name=meta.name,
                holder=spec.holder_identity or "",
                renewed=spec.renew_time or "",
                identity_of=labels.get("apiserver.kubernetes.io/identity", ""),
                hostname=labels.get("kubernetes.io/hostname", ""),
                duration_seconds=spec.lease_duration_seconds,
            )
        )
    return tuple(sorted(rows, key=lambda lease: lease.name))
