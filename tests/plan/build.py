"""Snapshots and tickets of the recorded captures and the fixtures, made once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from changegen import kubedata, profiles
from changegen.collect import Options, build_snapshot, files
from changegen.model.profile import Profile, Target
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import Ticket
from changegen.plan import make_ticket

DATA = Path(__file__).parent.parent / "data"
RECORDED = DATA / "recorded"
NOW = "2026-12-01T03:00:00Z"


def read(folder: Path) -> Snapshot:
    return build_snapshot(files.read_input([folder]), Options(description=folder.name))


@cache
def recorded(name: str) -> Snapshot:
    return read(RECORDED / name)


@cache
def fixture(name: str) -> Snapshot:
    return read(DATA / "fixtures" / name)


@cache
def dra_profile(target: str = "1.37.2") -> Profile:
    loaded = profiles.load("kubernetes-1.37-dra")
    return msgspec.structs.replace(loaded, target=msgspec.structs.replace(loaded.target, kubernetes=target))


def to(target: str, **more: object) -> Profile:
    return msgspec.structs.replace(Profile(name="to", target=Target(kubernetes=target)), **more)


@cache
def ticket(name: str = "before") -> Ticket:
    return make_ticket(recorded(name), dra_profile(), kubedata.load(), now=NOW)


def plan(snapshot: Snapshot, profile: Profile | None = None, **more: object) -> Ticket:
    return make_ticket(snapshot, profile or to("1.37.2"), kubedata.load(), **more)  # type: ignore[arg-type]
