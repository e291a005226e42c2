"""What a drain waits for: only Pods that it evicts, and of them those whose eviction asks a budget."""

from __future__ import annotations

from typing import Any

import pytest

from changegen.assess.dra import asks_budgets
from changegen.model.snapshot import DisruptionBudget, Snapshot
from tests.assess.build import of, run, with_fields
from tests.assess.gpus import gpus, user
from tests.plan.build import plan, recorded


def guarded(**pod: Any) -> Snapshot:
    return gpus(
        user("a", **pod),
        disruption_budgets=(
            DisruptionBudget(
                namespace="ml", name="b", disruptions_allowed=0, expected_pods=1, observed=True, pods=("a",)
            ),
        ),
    )


LET_GO: dict[str, dict[str, Any]] = {
    "it waits for a node": {"on": ""},
    "it is Pending on its node": {"phase": "Pending"},
    "it has finished": {"phase": "Succeeded"},
    "it goes already": {"deleting_since": "2026-01-01T00:00:00Z"},
    "a DaemonSet has it": {"owner": "DaemonSet/exporter"},
    "it is a mirror": {"owner": None, "owner_chain": ("Node/n1",)},
}


def test_a_budget_that_allows_nothing_holds_the_drain_of_its_pods_node() -> None:
    (found,) = of(run(guarded()), "CG-PDB-001")
    assert found.subject.instances == ("n1",)


@pytest.mark.parametrize("why", sorted(LET_GO))
def test_a_pod_that_is_let_go_or_stays_holds_no_drain(why: str) -> None:
    snapshot = guarded(**LET_GO[why])
    assert not asks_budgets(snapshot.pods[0])
    (found,) = of(run(snapshot), "CG-PDB-001")
    assert not found.subject.instances
    assert "hang" not in found.message


@pytest.mark.parametrize(
    ("change", "holds"),
    [({}, True), ({"phase": "Pending"}, False), ({"deleting_since": "2026-12-01"}, False)],
)
def test_a_plan_relaxes_a_budget_only_for_pods_that_it_holds(change: dict[str, Any], holds: bool) -> None:
    base = recorded("before")
    pods = tuple(with_fields(pod, **change) if pod.name.startswith("train-") else pod for pod in base.pods)
    made = plan(with_fields(base, pods=pods))
    assert any("hangs until it does" in note for step in made.steps for note in step.notes) is holds
    commands = [item.text for step in made.steps if step.phase == "before" for item in step.commands]
    assert any("patch poddisruptionbudget" in text for text in commands) is holds
