"""Fixtures of the real control plane. Without its binaries the tests are skipped, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.controlplane import build, scene
from tests.controlplane.cluster import Cluster, Node, Plan, control_plane


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs the control plane."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.controlplane)


def need(*versions: str) -> None:
    """Skip, or fail where the control plane is required, unless the binaries of all ``versions`` are in the cache."""
    for version in versions:
        if reason := build.missing_reason(version):
            if build.required():
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)


@pytest.fixture(scope="module")
def start_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Plan], Cluster]]:
    """A function that starts a cluster of a plan; all are stopped at the end of the module."""
    with ExitStack() as stack:

        def start(plan: Plan) -> Cluster:
            need(plan.version)
            return stack.enter_context(Cluster(plan, tmp_path_factory.mktemp(f"cluster-{plan.version}-")))

        yield start


@pytest.fixture(scope="session")
def scene_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The scene of the recorded captures on 1.36.3, with an audit log. Tests leave its drivers and workloads alone."""
    need("1.36.3")
    with Cluster(scene.plan("1.36.3", audit=True), tmp_path_factory.mktemp("scene-")) as cluster:
        scene.populate(cluster)
        yield cluster


@pytest.fixture(scope="module", params=build.cluster_versions())
def small_cluster(request: pytest.FixtureRequest, start_cluster: Callable[[Plan], Cluster]) -> Cluster:
    """One control-plane node and two workers, in each version whose binary is there."""
    return start_cluster(
        Plan(
            version=request.param,
            nodes=[
                control_plane("cp-1"),
                Node(name="gpu-1", labels={"example.com/accelerator": "gpu"}),
                Node(
                    name="old-gpu-1",
                    labels={"example.com/accelerator": "plugin"},
                    taints=["example.com/gpu-only=true:NoSchedule"],
                    devices={"example.com/legacy-gpu": "4"},
                    gates={"ResourceHealthStatus": True},
                ),
            ],
            audit=True,
        )
    )
