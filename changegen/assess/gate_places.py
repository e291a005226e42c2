"""Where one cluster sets one feature gate, and what its instances do with it today."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from changegen.assess.context import GATED, Context, GateState, place_of
from changegen.assess.seats import gate_evidence, seats
from changegen.kubedata import KubernetesData
from changegen.model.base import Model
from changegen.model.profile import Profile
from changegen.model.snapshot import Component, Snapshot

__all__ = ["GatePlace", "gate_places"]

_KUBEADM = "kubeadm"


class GatePlace(Model, frozen=True, kw_only=True):
    """Instances of one component, or a ConfigMap, that have a gate in the same state for the same reason."""

    component: str
    where: tuple[str, ...]
    """Nodes (or Pods) of the instances; `ConfigMap namespace/name` where it is what instances are made from."""
    state: Literal["set", "default", "locked", "effective", "absent", "unobservable"]
    """set: explicitly · default: the source was read and does not set it · locked: no other value is possible ·
    effective: the process says so itself · absent: that version has no such gate · unobservable: no source tells."""
    value: bool | None
    """The value in force, or that a ConfigMap asks for; None: not known."""
    sources: tuple[str, ...] = ()
    """Where it is set, as `place, path: value`; empty where it is not."""


def gate_places(snapshot: Snapshot, data: KubernetesData, gate: str) -> tuple[GatePlace, ...]:
    """Return where a cluster sets a gate, by component: instances first, then the ConfigMaps they are made from.

    A component that neither reads nor sets the gate is left out; one whose sources were not seen is there, as
    unobservable.
    """
    ctx = Context(snapshot, Profile(name="today"), data)
    return (*_instances(ctx, gate), *_config_maps(ctx, gate))


def _instances(ctx: Context, gate: str) -> Iterator[GatePlace]:
    history = ctx.data.gate(gate)
    readers = {name for known in history.by_minor.values() for name in known.components} if history else set()
    seat_of = {id(s.instance): s for s in seats(ctx) if s.instance is not None}
    for name in GATED:
        groups: dict[tuple[GateState, tuple[str, ...]], list[Component]] = {}
        for component in ctx.of(name):
            state = ctx.gate_state(component, gate)
            seat = seat_of.get(id(component))
            is_set = isinstance(component.feature_gates, dict) and gate in component.feature_gates
            if name not in readers and not is_set:
                continue
            sources: tuple[str, ...] = ()
            if is_set and seat is not None:
                told = gate_evidence(seat, gate)
                sources = tuple(
                    dict.fromkeys(f"{e.path}: {e.value}" for e in told if e.provenance != "inferred")
                )
            alike = GateState(
                gate=gate, component=name, instance="", node="", value=state.value, how=state.how
            )
            groups.setdefault((alike, sources), []).append(component)
        for (state, sources), members in groups.items():
            yield GatePlace(
                component=name,
                where=tuple(place_of(m) for m in members),
                state=state.how,
                value=state.value,
                sources=sources,
            )


def _config_maps(ctx: Context, gate: str) -> Iterator[GatePlace]:
    for config in ctx.snapshot.config_maps:
        place = f"ConfigMap {config.namespace}/{config.name}"
        for name, source in sorted(config.component_gates.items()):
            if gate in source.gates:
                told = tuple(v for v in source.flag_values if gate in v) or (
                    f"{gate}: {str(source.gates[gate]).lower()}",
                )
                yield GatePlace(
                    component=name, where=(place,), state="set", value=source.gates[gate], sources=told
                )
        if gate in config.own_feature_gates:
            yield GatePlace(
                component=_KUBEADM, where=(place,), state="set", value=config.own_feature_gates[gate]
            )
