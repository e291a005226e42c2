"""Quantities as Kubernetes reads them."""

from __future__ import annotations

import pytest

from changegen.quantity import QuantityError, count, is_extended_resource, parse_quantity


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1Gi", "1024Mi"),
        ("1k", "1000"),
        ("500m", "0.5"),
        ("1e3", "1k"),
        ("2E", "2e18"),
        ("1.5Ki", "1536"),
        ("0", "0m"),
    ],
)
def test_two_spellings_of_one_value(text: str, same: str) -> None:
    assert parse_quantity(text) == parse_quantity(same)


@pytest.mark.parametrize(("small", "large"), [("1G", "1Gi"), ("999Mi", "1Gi"), ("1n", "1u"), ("-1", "0")])
def test_order(small: str, large: str) -> None:
    assert parse_quantity(small).key < parse_quantity(large).key


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "one", "1KiB", "0x10", "1e", "1_000", "9" * 50])
def test_what_is_none(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)
    assert count(text) == 0


@pytest.mark.parametrize(("text", "n"), [("2", 2), ("1500m", 2), ("1k", 1000), ("0", 0)])
def test_whole_numbers(text: str, n: int) -> None:
    assert count(text) == n


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("example.com/gpu", True),
        ("deviceclass.resource.kubernetes.io/gpu", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("attachable-volumes-csi-x", False),
        ("kubernetes.io/batch", False),
        ("requests.example.com/gpu", False),
    ],
)
def test_names_that_a_device_can_serve(name: str, extended: bool) -> None:
    assert is_extended_resource(name) is extended
