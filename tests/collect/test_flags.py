"""Command lines behind wrappers, and which values of flags are kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changegen.collect.flags import KEPT, config_facts, facts_of_list, parse_flags, unwrap, values_of

WRAPPED: list[tuple[list[str], list[str], str, list[str], str]] = [
    (["kube-apiserver", "--a=b"], [], "kube-apiserver", ["--a=b"], "command"),
    (["/usr/local/bin/kube-proxy"], ["--config=/x"], "kube-proxy", ["--config=/x"], "command"),
    (
        ["/go-runner"],
        ["--log-file=/var/log/x.log", "--also-stdout=true", "/usr/local/bin/kube-apiserver", "--v=2"],
        "kube-apiserver",
        ["--v=2"],
        "command",
    ),
    (
        ["kube-log-runner", "-log-file", "/x", "kube-scheduler", "--v=2"],
        [],
        "kube-scheduler",
        ["--v=2"],
        "command",
    ),
    (
        ["/bin/sh", "-c", "exec kube-proxy --master=x --v=2 1>>/var/log/kube-proxy.log 2>&1"],
        [],
        "kube-proxy",
        ["--master=x", "--v=2"],
        "shell",
    ),
    (
        ["/bin/bash", "-euxo", "pipefail", "-c"],
        ["timeout 3m bash -c 'sleep 1'\n\nexec hyperkube kube-controller-manager --a=b \\\n  --c=d -v=2\n"],
        "kube-controller-manager",
        ["--a=b", "--c=d", "-v=2"],
        "shell",
    ),
    (
        ["/bin/bash", "-ec"],
        [
            (
                'LOCK=/x/.lock\nexec {LOCK_FD}>${LOCK} && flock -w 30 "${LOCK_FD}" || {\n exit 1\n}\n'
                "exec watch-termination --touch=/x -- hyperkube kube-apiserver --openshift-config=/c.yaml"
            )
        ],
        "kube-apiserver",
        ["--openshift-config=/c.yaml"],
        "shell",
    ),
    (
        ["sh", "-c", 'exec kube-apiserver "$@" | tee /x', "--", "--a=b"],
        ["--c", "d"],
        "kube-apiserver",
        ["--a=b", "--c", "d"],
        "shell",
    ),
    (
        ["sh", "-c", 'FOO="a b" kube-scheduler --x="1 2" --y=\'$(z)\' --n=$(NODE_NAME)'],
        [],
        "kube-scheduler",
        ["--x=1 2", "--y=$(z)", "--n=$(NODE_NAME)"],
        "shell",
    ),
    (
        [
            "/bin/sh",
            "-c",
            "mkfifo /p; (tee /var/log/etcd.log < /p & ) ; exec /usr/local/bin/etcd --data-dir=/d > /p 2>&1",
        ],
        [],
        "etcd",
        ["--data-dir=/d"],
        "shell",
    ),
    (
        ["/http-prober-bin/http-prober"],
        [
            "-endpoint",
            "http://x",
            "-command",
            json.dumps({"command": "/usr/local/bin/kube-apiserver", "args": ["--feature-gates", "A=true"]}),
        ],
        "kube-apiserver",
        ["--feature-gates", "A=true"],
        "json",
    ),
    ([], ["--config=/x"], "", ["--config=/x"], "args only"),
    ([], [], "", [], "none"),
    (["/entrypoint.sh", "kube-proxy", "--v=1"], [], "kube-proxy", ["--v=1"], "unknown wrapper"),
    (["/start.sh"], ["--v=1"], "start.sh", ["--v=1"], "unknown wrapper"),
    (["env", "A=b", "nice", "-n", "-10", "kubelet", "--v=1"], [], "kubelet", ["--v=1"], "command"),
    (["tini", "--", "etcd", "--name=x"], [], "etcd", ["--name=x"], "command"),
    (["C:\\k\\kube-proxy.exe", "--v=1"], [], "kube-proxy", ["--v=1"], "command"),
    (["/bin/aws-cloud-controller-manager"], ["--v=2"], "aws-cloud-controller-manager", ["--v=2"], "command"),
]


@pytest.mark.parametrize(("command", "args", "name", "argv", "form"), WRAPPED)
def test_the_real_binary_is_found_behind_its_wrapper(
    command: list[str], args: list[str], name: str, argv: list[str], form: str
) -> None:
    program = unwrap(command, args)
    assert (program.name, list(program.argv), program.form) == (name, argv, form)


@given(st.lists(st.text(max_size=30), max_size=6), st.lists(st.text(max_size=60), max_size=6))
def test_no_command_line_makes_it_fail(command: list[str], args: list[str]) -> None:
    program = unwrap(command, args)
    parse_flags(program.argv)


@given(st.text(alphabet="ab '\"\\$(){};&|<>\n#`=-", max_size=80))
def test_no_script_makes_it_fail(script: str) -> None:
    unwrap(["sh", "-c", script + "\nexec kube-proxy --v=2"], [])


def test_flags_are_read_in_order_with_all_their_values() -> None:
    flags = parse_flags(
        [
            "--feature-gates=A=true",
            "--feature_gates",
            "B=false",
            "-v=2",
            "--leader-elect",
            "--x=",
            "--",
            "--y=1",
        ]
    )
    assert flags == (
        ("feature-gates", "A=true"),
        ("feature-gates", "B=false"),
        ("v", "2"),
        ("leader-elect", None),
        ("x", ""),
    )
    assert values_of(flags, "feature-gates") == ("A=true", "B=false")


def test_values_are_kept_of_the_list_only_and_names_of_all() -> None:
    flags = parse_flags(
        [
            "--token-auth-file=/x",
            "--etcd-servers=https://secret.example",
            "--feature-gates=A=true",
            "--profiling",
        ]
    )
    facts = {fact.name: fact.values for fact in config_facts(flags)}
    assert facts == {
        "token-auth-file": None,
        "etcd-servers": None,
        "feature-gates": ("A=true",),
        "profiling": ("true",),
    }


def test_no_kept_flag_holds_a_secret_by_its_name() -> None:
    for name in KEPT - {"enable-bootstrap-token-auth"}:  # a switch
        assert not any(word in name for word in ("token", "password", "secret", "signing"))


def test_flags_of_configurations_are_read_as_maps_and_as_lists() -> None:
    wanted = (("feature-gates", "A=true"), ("v", "2"))
    assert facts_of_list({"feature-gates": "A=true", "v": 2}) == wanted
    assert facts_of_list([{"name": "feature-gates", "value": "A=true"}, {"name": "v", "value": 2}]) == wanted
    assert facts_of_list({"feature-gates": ["A=true", "B=true"]}) == (
        ("feature-gates", "A=true"),
        ("feature-gates", "B=true"),
    )
    assert facts_of_list(None) == ()
