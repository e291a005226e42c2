"""The ticket and the closing reports of the recorded upgrade, made once a test run."""

from __future__ import annotations

import functools
from pathlib import Path

from changegen import kubedata, profiles
from changegen.assess import Assessment, assess
from changegen.collect import Options, build_snapshot, files
from changegen.i18n import language
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import Results, Ticket
from changegen.plan import make_ticket
from changegen.verify import verify

DATA = Path(__file__).resolve().parent.parent / "data" / "recorded"
PROFILE = "kubernetes-1.37-dra"


@functools.cache
def snapshot(name: str) -> Snapshot:
    return build_snapshot(files.read_input([DATA / name]), Options(description=name))


@functools.cache
def ticket(lang: str = "en") -> Ticket:
    return make_ticket(
        snapshot("before"), profiles.load(PROFILE), kubedata.load(), lang=lang, profile_name=PROFILE
    )


@functools.cache
def report(name: str, lang: str = "en") -> Results:
    return verify(ticket(lang), snapshot(name), data=kubedata.load(), lang=lang)


@functools.cache
def assessment() -> Assessment:
    with language("en"):
        return assess(snapshot("before"), profiles.load(PROFILE), kubedata.load())
