"""Where a command is run, in the reader's language: the data files name places in English, as keys of this table."""

from __future__ import annotations

from collections.abc import Callable

from changegen.i18n import tr

__all__ = ["PLACES", "place"]

PLACES: dict[str, Callable[[], str]] = {
    "any machine with kubectl": lambda: tr("any machine with kubectl"),
    "any machine with aws": lambda: tr("any machine with aws"),
    "any machine with az": lambda: tr("any machine with az"),
    "any machine with gcloud": lambda: tr("any machine with gcloud"),
    "any machine with oc": lambda: tr("any machine with oc"),
    "the machine that keeps the backups": lambda: tr("the machine that keeps the backups"),
    "the machine with kops": lambda: tr("the machine with kops"),
    "the machine with minikube": lambda: tr("the machine with minikube"),
    "the machine with talosctl": lambda: tr("the machine with talosctl"),
    "the machine with the inventory": lambda: tr("the machine with the inventory"),
}
"""Key in the data -> its words; a node's name is no key and stays as it is."""


def place(where: str) -> str:
    """The words of a place; what is no key (a node's name, words already) stays."""
    words = PLACES.get(where)
    return words() if words is not None else where
