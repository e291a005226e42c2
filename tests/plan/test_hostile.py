"""Names and versions of a cluster in printed commands: a shell runs nothing of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import msgspec
import pytest

from changegen.model.snapshot import Snapshot
from changegen.model.ticket import Ticket
from tests.plan.build import fixture, plan, recorded, to

EVIL = "$(pwned)`pwned`;pwned&'pwned\"|pwned"
"""What follows every name: each of a shell's ways to run something, with both quotes in the middle."""
DISTRIBUTIONS = sorted(
    path.name.removesuffix(".json")
    for path in (files("changegen") / "data" / "distributions").iterdir()
    if path.name != "aliases.json"
)


def unquoted(command: str) -> str:
    """What of a command a shell looks at: what stands in single quotes is left out, what a backslash covers too."""
    out, at, double = [], 0, False
    while at < len(command):
        char = command[at]
        if char == "\\":
            at += 2
            continue
        if char == "'" and not double:
            at = command.index("'", at + 1) + 1
            continue
        double ^= char == '"'
        out.append(char)
        at += 1
    return "".join(out)


def runs(command: str) -> bool:
    """Whether a shell would run the evil in it."""
    return re.search(r"(\$\(|[`;&|(]|^|\s)pwned", unquoted(command)) is not None


def names(snapshot: Snapshot) -> set[str]:
    """Names that the cluster gives: of nodes, objects, namespaces, drivers, classes and rules."""
    found = {n.name for n in snapshot.nodes}
    found |= {snapshot.cluster.name, *(t.key for n in snapshot.nodes for t in n.taints)}
    for item in (*snapshot.pods, *snapshot.claims, *snapshot.workloads, *snapshot.disruption_budgets):
        found |= {item.name, item.namespace}
    found |= {c.name for c in snapshot.device_classes} | {r.name for r in snapshot.taint_rules}
    found |= {d.driver for d in snapshot.drivers}
    return found - {""}


def versions(snapshot: Snapshot) -> set[str]:
    """Versions of nodes and components, which end in a build that anybody may choose."""
    found = {c.running_version or "" for c in snapshot.components} | {c.version for c in snapshot.components}
    found |= {n.kubelet_version for n in snapshot.nodes} | {snapshot.cluster.server_version}
    return {text for text in found if text and text.startswith("v1.")}


def spoiled(value: Any, known: set[str], evil: str) -> Any:
    """The same value with something evil behind every known text, keys of maps too."""
    if isinstance(value, str):
        return value + evil if value in known else value
    if isinstance(value, dict):
        return {spoiled(key, known, evil): spoiled(item, known, evil) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [spoiled(item, known, evil) for item in value]
    return value


def spoil(snapshot: Snapshot, known: set[str], evil: str) -> Snapshot:
    made = spoiled(msgspec.to_builtins(snapshot), known - {snapshot.cluster.distribution}, evil)
    # Words of our own that happen to be a name stay.
    made["config_maps"] = [
        {**new, "kind": old.kind} for new, old in zip(made["config_maps"], snapshot.config_maps, strict=True)
    ]
    made["workloads"] = [
        {**new, "addon": old.addon} for new, old in zip(made["workloads"], snapshot.workloads, strict=True)
    ]
    return msgspec.convert(made, Snapshot)


def commands(ticket: Ticket) -> Iterator[str]:
    yield from (c.text for step in (*ticket.steps, *ticket.rollback) for c in step.commands)
    yield from (c.command for c in ticket.checks)
    yield from (m.query for m in ticket.monitoring if m.query.startswith("kubectl"))


def test_the_lexer_sees_what_a_shell_sees() -> None:
    assert not runs("echo '$(pwned)'")
    assert runs('echo "$(pwned)"')
    assert not runs("echo 'it'\"'\"'s $(pwned)'")
    assert runs("echo 'a'$(pwned)'b'")
    assert runs("sh -c 'x='a;pwned' y'")


def of(distribution: str) -> Snapshot:
    before = recorded("before")
    return msgspec.structs.replace(
        before, cluster=msgspec.structs.replace(before.cluster, distribution=distribution)
    )


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_nothing_of_a_name_is_run(distribution: str) -> None:
    there = of(distribution)
    printed = list(commands(plan(spoil(there, names(there), EVIL), to("1.37.2"))))
    assert sum("pwned" in text for text in printed) > 5, "the names are in the commands"
    for text in printed:
        assert not runs(text), text


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_nothing_of_a_version_is_run(distribution: str) -> None:
    there = of(distribution)
    made = plan(spoil(there, versions(there), "+x$(pwned)`pwned`;pwned"), to("1.37.2"))
    assert made.steps
    for text in commands(made):
        assert not runs(text), text


@pytest.mark.parametrize("name", ["eks", "talos", "rke2", "openshift"])
def test_fixtures_with_evil_names_and_versions(name: str) -> None:
    there = fixture(name)
    for made in (
        plan(spoil(there, names(there), EVIL), to("1.37.2")),
        plan(spoil(there, versions(there), "+x$(pwned)`pwned`;pwned"), to("1.37.2")),
    ):
        for text in commands(made):
            assert not runs(text), text
