"""What holds for every ticket: ids, references, order, commands."""

from __future__ import annotations

import re
import subprocess

import pytest

from changegen import kubedata
from changegen.model.ticket import Ticket
from changegen.versions import minor_of
from tests.plan.build import DATA, fixture, plan, ticket, to

FIXTURES = sorted(path.name for path in (DATA / "fixtures").iterdir() if path.is_dir())


def of_fixture(name: str) -> Ticket:
    snapshot = fixture(name)
    minor = minor_of(snapshot.cluster.server_version) or "1.36"
    number = min(int(minor.split(".")[1]) + 1, 37)
    return plan(snapshot, to(f"1.{number}"))


ALL = [
    *(("recorded", name) for name in ("before", "mid", "after")),
    *(("fixture", name) for name in FIXTURES),
]


@pytest.fixture(params=ALL, ids=lambda p: f"{p[0]}-{p[1]}")
def made(request: pytest.FixtureRequest) -> Ticket:
    kind, name = request.param
    return ticket(name) if kind == "recorded" else of_fixture(name)


def test_ids_are_unique_numbered_in_order_and_every_reference_exists(made: Ticket) -> None:
    for items, letters in ((made.steps, "PIA"), (made.checks, "V"), (made.rollback, "B")):
        ids = [item.id for item in items]
        assert len(set(ids)) == len(ids)
        for letter in letters:
            numbers = [int(i.split("-")[1]) for i in ids if i.startswith(letter)]
            assert numbers == list(range(1, len(numbers) + 1))
    steps = {s.id for s in made.steps}
    checks = {c.id for c in made.checks}
    backs = {b.id for b in made.rollback}
    findings = {f.id for f in made.findings}
    for step in made.steps:
        assert set(step.checks) <= checks
        assert {*step.rollback, *step.used_by} <= backs
        assert set(step.findings) <= findings
    for check in made.checks:
        assert check.steps
        assert set(check.steps) <= steps
        assert set(check.findings) <= findings
    for back in made.rollback:
        assert set(back.needed_once) <= steps
    for finding in made.findings:
        assert set(finding.remedy) <= steps
        assert set(finding.checks) <= checks
        assert set(finding.rollback) <= backs
    assert [b.order for b in made.rollback] == list(range(1, len(made.rollback) + 1))


def test_phases_come_in_order(made: Ticket) -> None:
    letters = [s.id[0] for s in made.steps]
    assert letters == sorted(letters, key="PIA".index)


def test_every_step_says_what_proves_it_and_what_writes_has_a_way_back(made: Ticket) -> None:
    for step in made.steps:
        assert step.go_on, step.id
        assert step.stop, step.id
        if any(command.runs == "write" for command in step.commands):
            assert step.rollback or step.used_by, (step.id, step.title)
        # What only saves or prepares undoes nothing, and a step back does not undo it.
        assert not set(step.rollback) & set(step.used_by), (step.id, step.title)


def test_a_check_can_pass_where_it_stands(made: Ticket) -> None:
    """Of versions by node only what is done by then is asked for; before the change no version of the target is."""
    checks = {check.id: check for check in made.checks}
    last = next((step.hop for step in reversed(made.steps) if step.hop), "")
    done: dict[str, set[str]] = {}
    for step in made.steps:
        done.setdefault(step.phase, set()).update(step.nodes)
        for name in step.checks:
            check = checks[name]
            part = step.partial.get(name)
            if step.phase == "before" or step.hop not in ("", last):
                assert check.compare != "version", (step.id, check.title)
            if part is not None:
                assert isinstance(check.expected, (dict, tuple)), (step.id, check.title)
                if isinstance(check.expected, dict):
                    assert part, step.id
                    assert set(part) <= set(check.expected), (step.id, check.title)
            if check.query is None or check.query.fact not in ("component.running", "kubelet.by-node"):
                continue
            kubelets = check.query.fact == "kubelet.by-node"
            moved = done.get("control-plane", set()) | (done.get("nodes", set()) if kubelets else set())
            if step.phase == "after" or not isinstance(check.expected, dict):
                continue
            if kubelets and not any(s.phase == "nodes" for s in made.steps):
                continue  # One command moves every kubelet.
            asked = set(part if part is not None else check.expected)
            # What runs the target already needs no step.
            already = {n for n, v in (check.before or {}).items() if v == check.expected.get(n)}  # type: ignore[union-attr]
            assert asked <= moved | already, (step.id, check.title)
        assert set(step.partial) <= set(step.checks)


def test_a_finding_is_sent_to_a_step_that_speaks_of_it(made: Ticket) -> None:
    steps = {step.id: step for step in made.steps}
    for finding in made.findings:
        for name in finding.remedy:
            step = steps[name]
            words = "\n".join(
                (step.title, step.why, step.go_on, step.stop, *step.notes, *(c.text for c in step.commands))
            )
            subject = finding.subject
            short = [item.rpartition("/")[2] for item in subject.instances]
            wanted = [subject.name] if subject.name else [subject.component, *short]
            assert any(word and word in words for word in wanted), (finding.id, step.id, step.title)


def test_a_snapshot_of_the_data_is_the_last_thing_before_the_window(made: Ticket) -> None:
    before = [s.title for s in made.steps if s.phase == "before"]
    saved = [at for at, title in enumerate(before) if "etcd snapshot" in title or "external etcd" in title]
    assert saved == list(range(len(before)))[len(before) - len(saved) :]


def test_every_blocker_has_a_remedy(made: Ticket) -> None:
    for finding in made.findings:
        if finding.severity == "blocking":
            assert finding.remedy, finding.id
    if made.decision == "do-not-start":
        assert re.search(r"step P-\d+", made.headline)


def test_no_placeholder_is_left_in_any_text(made: Ticket) -> None:
    for step in made.steps:
        for text in (
            step.title,
            step.why,
            step.go_on,
            step.stop,
            *step.notes,
            *(c.text for c in step.commands),
        ):
            assert "{{" not in text, text
            assert not re.search(r"\{[a-z_]+\}", re.sub(r"jsonpath='[^']*'", "", text)), text
    for back in made.rollback:
        for text in (back.what, back.to, back.why, back.until, back.lost, *(c.text for c in back.commands)):
            assert "{{" not in text, text


def test_every_shell_variable_is_explained_where_it_is_first_used(made: Ticket) -> None:
    own = {"NODE", "HOME", "KUBECACHEDIR", "TICKET_INPUT", "N"}
    seen: set[str] = set()
    for step in made.steps:
        notes = "\n".join(step.notes)
        for command in step.commands:
            text = re.sub(r"'[^']*'", "", command.text)
            for counted in re.findall(r"\bfor ([A-Z]+) in ", text):
                text = re.sub(rf"\$\{{?{counted}\b", "", text)
            for name in re.findall(r'"\$\{?([A-Z_]+)', text):
                if name not in own and name not in seen:
                    assert f"${name}" in notes, (step.id, name)
                seen.add(name)
        if any("$NODE" in c.text or "${NODE" in c.text for c in step.commands) and len(step.nodes) > 1:
            assert "NODE" in notes, step.id


def test_a_node_that_nobody_chose_stops_the_command(made: Ticket) -> None:
    for step in made.steps:
        assert not any(re.search(r"\$NODE\b", command.text) for command in step.commands), step.id
        chosen = [c for c in step.commands if "${NODE:?}" in c.text or c.where == "the node in $NODE"]
        if chosen:
            # Named before the first block that is for it, and in words with all others.
            assert step.commands[0].text == f"NODE={step.nodes[0]}", step.id
            assert any("NODE" in note for note in step.notes), step.id


def test_commands_are_shell(made: Ticket) -> None:
    commands = [c.text for s in made.steps for c in s.commands] + [
        c.text for b in made.rollback for c in b.commands
    ]
    commands += [c.command for c in made.checks if c.command]
    script = "\n".join(dict.fromkeys(commands))
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "None" not in re.sub(r"effect=None", "", script)


def test_commands_that_read_do_not_write(made: Ticket) -> None:
    writes = re.compile(
        r"\b(?:apply|replace|delete|create|patch|edit|drain|cordon|uncordon|set image|install|restart)\b"
    )
    for step in made.steps:
        for command in step.commands:
            if command.runs == "read" and "--dry-run" not in command.text and "kubectl" in command.text:
                assert not writes.search(command.text), command.text
    for check in made.checks:
        assert not writes.search(re.sub(r"jsonpath='[^']*'", "", check.command)), check.command


def test_nothing_is_expected_that_is_not_known_before_but_compared_with_it(made: Ticket) -> None:
    assert made.checks
    for check in made.checks:
        compared = check.compare in ("same-as-before", "at-least", "at-most")
        assert check.before_known or not compared or check.expected is None, check.id


def test_the_first_page_is_whole(made: Ticket) -> None:
    assert made.title
    assert made.headline
    assert all(made.facts.values())
    assert made.data_age
    assert kubedata.load().digest in {item.sha256 for item in made.inputs}
