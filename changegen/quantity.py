"""Kubernetes quantities, exactly (`80Gi`, `500m`, `1e3`), and the names of what is counted in them.

Source: k8s.io/apimachinery, pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Final

import msgspec

__all__ = [
    "DEVICE_CLASS_PREFIX",
    "Quantity",
    "QuantityError",
    "count",
    "is_extended_resource",
    "parse_quantity",
]

DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Of the implicit extended resource that every DeviceClass has."""

_QUANTITY: Final = re.compile(
    r"^(?P<number>[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40}))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?$"
)
_BINARY: Final = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
}


class QuantityError(ValueError):
    """The text is no quantity."""


class Quantity(msgspec.Struct, frozen=True):
    """A quantity by its value; two spellings of one value are equal."""

    key: Decimal


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """The value of a quantity as it is written. Raises `QuantityError`."""
    match = _QUANTITY.match(text)
    if match is None:
        raise QuantityError(f"{text!r} is no quantity")
    suffix = match["suffix"] or ""
    number = Decimal(match["number"])
    if suffix in _BINARY:
        return Quantity(number * _BINARY[suffix])
    if suffix in _DECIMAL:
        return Quantity(number * _DECIMAL[suffix])
    return Quantity(number.scaleb(int(suffix[1:])) if suffix else number)


def count(text: str) -> int:
    """A quantity as a whole number of things, rounded up as Kubernetes does; 0 for what is none."""
    try:
        value = parse_quantity(text).key
    except QuantityError:
        return 0
    whole = int(value)
    return whole if whole >= value else whole + 1


def is_extended_resource(name: str) -> bool:
    """Whether a resource name is one that a device plugin or DRA can serve.

    Native ones have no domain or lie in kubernetes.io; the implicit name of a DeviceClass lies there and still counts.
    Source: pkg/apis/core/v1/helper and pkg/scheduler/util of Kubernetes 1.37.
    """
    if name.startswith(DEVICE_CLASS_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
