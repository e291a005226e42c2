"""What the scheduler counts for a Pod: containers, init containers, sidecars, the Pod's own resources and overhead.

Source: component-helpers/resource/helpers.go of Kubernetes 1.37 (PodRequests). What an in-place resize is about to give is
not looked at: the spec counts. For extended resources that DRA serves the number is the same, since an init container
uses the devices of later containers (plugins/dynamicresources/extendeddynamicresources.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Final

from changegen.collect import wire as core
from changegen.quantity import QuantityError, is_extended_resource, parse_quantity

__all__ = ["Amounts", "add_native", "native", "pod_requests", "texts"]

Amounts = dict[str, Decimal]
_POD_LEVEL: Final = ("cpu", "memory")


def _amounts(resources: core.Resources | None) -> Amounts:
    """Requests of a container; a resource with a limit and no request requests the limit, as the API server fills in."""
    if resources is None:
        return {}
    return _parsed({**(resources.limits or {}), **(resources.requests or {})})


def _parsed(found: Mapping[str, core.Quantity]) -> Amounts:
    amounts: Amounts = {}
    for name, value in found.items():
        try:
            amounts[name] = parse_quantity(str(value)).key
        except QuantityError:
            continue
    return amounts


def _add(total: Amounts, more: Mapping[str, Decimal]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _raise(total: Amounts, least: Mapping[str, Decimal]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, Decimal(0)), amount)


def pod_requests(spec: core.PodSpec) -> Amounts:
    """What the scheduler counts for a Pod, by resource."""
    total: Amounts = {}
    for container in spec.containers or ():
        _add(total, _amounts(container.resources))
    beside: Amounts = {}
    starting: Amounts = {}
    for container in spec.init_containers or ():
        wanted = _amounts(container.resources)
        if container.restart_policy == "Always":
            _add(total, wanted)
            _add(beside, wanted)
            _raise(starting, beside)
        else:
            now = dict(beside)
            _add(now, wanted)
            _raise(starting, now)
    _raise(total, starting)
    own = _parsed((spec.resources.requests or {}) if spec.resources is not None else {})
    total.update({name: amount for name, amount in own.items() if _pod_level(name)})
    _add(total, _parsed(spec.overhead or {}))
    return total


def _pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith("hugepages-")


def native(amounts: Mapping[str, Decimal]) -> Amounts:
    """Without extended resources: those are counted by devices."""
    return {name: amount for name, amount in amounts.items() if not is_extended_resource(name)}


def texts(amounts: Mapping[str, Decimal]) -> dict[str, str]:
    """Amounts as quantities, sorted by resource; nothing of what is 0."""
    return {name: _text(amount) for name, amount in sorted(amounts.items()) if amount}


def _text(amount: Decimal) -> str:
    if amount == amount.to_integral_value():
        return str(int(amount))
    milli = amount * 1000
    # Finer than a thousandth is rounded up, as Kubernetes does.
    return f"{int(milli.to_integral_value(rounding=ROUND_CEILING))}m"


def add_native(total: Amounts, spec: core.PodSpec) -> None:
    """Add what a Pod requests to a sum, extended resources aside."""
    _add(total, native(pod_requests(spec)))
