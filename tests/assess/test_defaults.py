"""Defaults that change, and what of the cluster they are said to concern."""

from __future__ import annotations

from changegen.assess.defaults import touches
from changegen.model.snapshot import Autoscaler, Snapshot, WorkloadRef
from tests.assess.build import READ, cluster, context, control_plane, of, profile, run, with_fields

HPA = "horizontalpodautoscalers.autoscaling"


def scaler(name: str = "web", **more: object) -> Autoscaler:
    target = WorkloadRef(kind="Deployment", namespace="shop", name=name)
    fields = {"namespace": "shop", "name": name, "target": target, "api_version": "autoscaling/v2"}
    return Autoscaler(**{**fields, **more})  # type: ignore[arg-type]


def scaled(*scalers: Autoscaler, version: str = "v1.36.3") -> Snapshot:
    return cluster(*control_plane(version), autoscalers=scalers, kinds_read=(*READ, HPA))


def test_gates_of_autoscaling_tell_the_autoscalers_that_they_concern() -> None:
    plain = scaler("plain", min_replicas=1)
    tuned = scaler("tuned", scale_down_tolerance="50m")
    asleep = scaler("asleep", min_replicas=0)
    ctx = context(scaled(plain, tuned, asleep))
    told = touches(ctx, "HPAConfigurableTolerance")
    assert told.used
    assert "shop/tuned" in told.text
    assert "plain" not in told.text
    assert "shop/asleep" in touches(ctx, "HPAScaleToZero").text
    assert "tuned" not in touches(ctx, "HPAScaleToZero").text
    everyone = touches(ctx, "StaleControllerConsistencyHPA").text
    assert all(name in everyone for name in ("shop/asleep", "shop/plain", "shop/tuned"))
    assert not touches(context(scaled(plain)), "HPAScaleToZero").text


def test_autoscalers_that_were_not_read_are_unknown() -> None:
    unread = with_fields(scaled(), kinds_read=READ)
    for gate in ("HPAConfigurableTolerance", "HPAScaleToZero", "StaleControllerConsistencyHPA"):
        told = touches(context(unread), gate)
        assert "were not read" in told.text
        assert not told.used
        assert not touches(context(scaled()), gate).text
    old = scaled(scaler(api_version="autoscaling/v1"))
    assert "which shows no tolerance" in touches(context(old), "HPAConfigurableTolerance").text


def test_a_default_that_autoscalers_feel_is_a_finding_of_its_own() -> None:
    def told(snapshot: Snapshot, to: str) -> set[str]:
        return {item.subject.name for item in of(run(snapshot, profile(to)), "CG-GATE-020")}

    assert "StaleControllerConsistencyHPA" in told(scaled(scaler()), "1.37.2")
    assert "StaleControllerConsistencyHPA" not in told(scaled(), "1.37.2")
    tuned = scaler(scale_up_tolerance="0")
    assert "HPAConfigurableTolerance" in told(scaled(tuned, version="v1.34.4"), "1.35.4")
    assert "HPAConfigurableTolerance" not in told(scaled(scaler(), version="v1.34.4"), "1.35.4")
