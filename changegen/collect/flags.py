"""Command lines of components: the real binary behind its wrappers, and its flags in order.

Nothing is executed or expanded. A shell script is split into words (quotes, continuation lines, redirections), the
command in it that starts a known component is taken, and its words are read as the component itself would read them.

Of flags all names are kept, since a removed flag stops a component; values only of :data:`KEPT`. Tokens, passwords,
keys' contents, host names of etcd servers and webhook addresses are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from changegen.model.snapshot import ConfigFact

__all__ = [
    "BINARIES",
    "KEPT",
    "Program",
    "basename",
    "config_facts",
    "facts_of_list",
    "is_component",
    "parse_flags",
    "unwrap",
    "values_of",
]

BINARIES: Final = frozenset(
    {
        "kube-apiserver",
        "kube-scheduler",
        "kube-controller-manager",
        "kubelet",
        "kube-proxy",
        "etcd",
        "cloud-controller-manager",
    }
)

KEPT: Final = frozenset(
    {
        # what decides the behaviour of gates and APIs
        "feature-gates",
        "runtime-config",
        "emulated-version",
        "min-compatibility-version",
        "emulation-forward-compatible",
        "runtime-config-emulation-forward-compatible",
        "enable-priority-and-fairness",
        # configuration files: paths, never contents
        "config",
        "config-dir",
        "config-file",
        "openshift-config",
        "kubeconfig",
        "pod-manifest-path",
        "admission-control-config-file",
        "authentication-config",
        "authorization-config",
        "audit-policy-file",
        "encryption-provider-config",
        "egress-selector-config-file",
        "tracing-config-file",
        "write-config-to",
        # admission and authorisation
        "enable-admission-plugins",
        "disable-admission-plugins",
        "authorization-mode",
        "anonymous-auth",
        "allow-privileged",
        "enable-aggregator-routing",
        "enable-bootstrap-token-auth",
        # where a component listens: what a check or a backup must reach
        "advertise-address",
        "bind-address",
        "secure-port",
        "listen-client-urls",
        "advertise-client-urls",
        "listen-peer-urls",
        # files of certificates: the plan prints etcdctl with them
        "cert-file",
        "key-file",
        "trusted-ca-file",
        "client-cert-auth",
        "peer-cert-file",
        "peer-key-file",
        "peer-trusted-ca-file",
        "peer-client-cert-auth",
        "etcd-cafile",
        "etcd-certfile",
        "etcd-keyfile",
        "etcd-prefix",
        "client-ca-file",
        "tls-cert-file",
        "tls-private-key-file",
        "tls-min-version",
        # etcd
        "name",
        "data-dir",
        "wal-dir",
        "snapshot-count",
        "quota-backend-bytes",
        "auto-compaction-mode",
        "auto-compaction-retention",
        "initial-cluster-state",
        "storage-backend",
        "storage-media-type",
        # the rest that forecasts and steps look at
        "cloud-provider",
        "cloud-config",
        "cluster-name",
        "controllers",
        "leader-elect",
        "proxy-mode",
        "hostname-override",
        "container-runtime-endpoint",
        "cgroup-driver",
        "fail-cgroupv1",
        "fail-swap-on",
        "profiling",
        "shutdown-delay-duration",
        "goaway-chance",
        "use-service-account-credentials",
        "v",
    }
)
"""Flags whose values are kept, without leading dashes."""

Form = Literal["command", "args only", "shell", "json", "unknown wrapper", "none"]


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What a container starts."""

    name: str
    """Basename of the real binary; empty where only arguments are given (the image's entry point starts it)."""
    argv: tuple[str, ...] = ()
    """Its arguments, without its name."""
    form: Form = "command"
    wrapper: str = ""
    """Basename of the outermost wrapper, if any."""

    @property
    def observable(self) -> bool:
        """Whether these are all arguments of the component itself."""
        return self.form not in {"none", "unknown wrapper"}


_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "busybox"})
# Wrappers that take flags of their own before the program; value: their flags whose value is the next word.
_PREFIXES: Final[dict[str, frozenset[str]]] = {
    "go-runner": frozenset({"log-file", "log-file-size", "flush-interval"}),
    "kube-log-runner": frozenset({"log-file", "log-file-size", "flush-interval"}),
    "tini": frozenset({"p", "e"}),
    "dumb-init": frozenset({"r", "rewrite"}),
    "catatonit": frozenset(),
    "nice": frozenset({"n", "adjustment"}),
    "ionice": frozenset({"c", "n"}),
    "nohup": frozenset(),
    "exec": frozenset({"a"}),
    "setpriv": frozenset(),
    "stdbuf": frozenset({"i", "o", "e"}),
    "hyperkube": frozenset(),
}
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_DEPTH: Final = 8


def basename(path: str) -> str:
    """Last part of a path, of Linux or Windows, without ``.exe``."""
    return re.split(r"[/\\]", path)[-1].removesuffix(".exe")


def is_component(name: str) -> bool:
    """Whether a program of this name is one of :data:`BINARIES`, a vendor's cloud-controller-manager included."""
    return name in BINARIES or name.endswith("-cloud-controller-manager")


def unwrap(command: Sequence[str] | None, args: Sequence[str] | None) -> Program:
    """The program behind ``command`` and ``args`` of a container."""
    words = [*(command or ()), *(args or ())]
    if not words:
        return Program(name="", form="none")
    if not command and words[0].startswith("-"):
        return Program(name="", argv=tuple(words), form="args only")
    found = _unwrap(words, 0)
    outer = basename(words[0])
    if found is not None:
        name, argv, form = found
        return Program(name=name, argv=tuple(argv), form=form, wrapper="" if name == outer else outer)
    # A wrapper that is not known: its arguments may reach the component, or not.
    for index, word in enumerate(words[1:], 1):
        if is_component(basename(word)) and not word.startswith("-"):
            return Program(
                name=basename(word), argv=tuple(words[index + 1 :]), form="unknown wrapper", wrapper=outer
            )
    return Program(name=outer, argv=tuple(words[1:]), form="unknown wrapper", wrapper=outer)


def words_after(name: str, command: Sequence[str] | None, args: Sequence[str] | None) -> tuple[str, ...]:
    """The words behind a program's name in ``command`` and ``args`` of a container, in a shell's script too."""
    words = [*(command or ()), *(args or ())]
    commands = [words]
    if words and basename(words[0]) in _SHELLS:
        commands = [found for word in words[1:] for found in _commands(word)]
    for found in commands:
        for index, word in enumerate(found):
            if basename(word) == name:
                return tuple(found[index + 1 :])
    return ()


Found = tuple[str, list[str], Form]


def _unwrap(words: list[str], depth: int) -> Found | None:
    """Name, arguments and form of a known component; None where these words start none."""
    while words and _ASSIGNMENT.match(words[0]):
        words = words[1:]
    if not words or depth > _DEPTH:
        return None
    first, rest = basename(words[0]), words[1:]
    if is_component(first):
        return first, rest, "command"
    if first in _SHELLS:
        return _shell(rest, depth)
    if first == "env":
        while rest and (rest[0].startswith("-") or _ASSIGNMENT.match(rest[0])):
            rest = rest[2:] if rest[0] in {"-u", "--unset", "-C", "--chdir"} else rest[1:]
        return _unwrap(rest, depth + 1)
    if first == "timeout":
        while rest and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in {"-k", "-s"} else rest[1:]
        return _unwrap(rest[1:], depth + 1)
    if first == "watch-termination":
        return _unwrap(rest[rest.index("--") + 1 :], depth + 1) if "--" in rest else None
    if first in _PREFIXES:
        return _unwrap(_skip_flags(rest, _PREFIXES[first]), depth + 1)
    for word in rest:
        found = _json_command(word, depth)
        if found is not None:
            return found
    return None


def _skip_flags(words: list[str], valued: frozenset[str]) -> list[str]:
    while words and words[0].startswith("-"):
        word = words[0]
        words = words[1:]
        if word == "--":
            break
        if "=" not in word and word.lstrip("-") in valued:
            words = words[1:]
    return words


class _JsonCommand(msgspec.Struct):
    command: str | list[str]
    args: list[str] = []


def _json_command(word: str, depth: int) -> Found | None:
    """A command written as JSON inside an argument (Kubermatic's http-prober)."""
    if not word.startswith("{"):
        return None
    try:
        inner = msgspec.json.decode(word, type=_JsonCommand)
    except msgspec.MsgspecError:
        return None
    start = [inner.command] if isinstance(inner.command, str) else inner.command
    found = _unwrap([*start, *inner.args], depth + 1)
    return None if found is None else (found[0], found[1], "json")


# ------------------------------------------------------------------------------------------------------------- shell


def _shell(words: list[str], depth: int) -> Found | None:
    """``sh -ec SCRIPT [$0 [$1 …]]`` in any of its spellings."""
    script: str | None = None
    if words and words[0] in _SHELLS:  # busybox sh
        words = words[1:]
    index = 0
    while index < len(words) and words[index].startswith(("-", "+")):
        word = words[index]
        index += 1
        if word in {"--", "-"}:
            break
        if word.startswith("--"):
            continue
        letters = word[1:]
        if letters.endswith(("o", "O")):
            index += 1
        if "c" in letters:
            while index < len(words) and words[index].startswith("-") and words[index] != "--":
                letters = words[index][1:]
                index += 2 if letters.endswith(("o", "O")) else 1
            if index < len(words):
                script = words[index]
            break
    if script is None:
        return None
    positional = words[index + 1 :]
    best: Found | None = None
    for command in _commands(script):
        expanded: list[str] = []
        for word in command:
            if word in {"$@", "$*", "${@}", "${*}"}:
                expanded.extend(positional[1:])
            else:
                expanded.append(word)
        found = _unwrap(expanded, depth + 1)
        if found is not None:
            best = (found[0], found[1], "shell")
    return best


_OPERATORS: Final = (";;", "&&", "||", ";", "|", "&", "\n", "(", ")")
_REDIRECTION: Final = re.compile(
    r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(?:>>|>\||>&|<&|<<<|<<|&>>|&>|<>|>|<)"
)
_KEYWORDS: Final = frozenset({"then", "else", "do", "{", "!", "time", "if", "elif", "while", "until"})


def _commands(script: str) -> list[list[str]]:
    """Simple commands of a shell script as words. Quotes are resolved, variables are left as they stand."""
    commands: list[list[str]] = []
    words: list[str] = []
    word: list[str] | None = None
    skip_next = False  # the target of a redirection
    index, end = 0, len(script)

    def close_word() -> None:
        nonlocal word, skip_next
        if word is not None:
            if skip_next:
                skip_next = False
            else:
                words.append("".join(word))
            word = None

    def close_command() -> None:
        nonlocal words
        close_word()
        while words and words[0] in _KEYWORDS:
            words = words[1:]
        if words:
            commands.append(words)
        words = []

    while index < end:
        char = script[index]
        if char == "\\":
            if script.startswith("\r\n", index + 1):
                index += 3
                continue
            following = script[index + 1 : index + 2]
            if following != "\n":
                word = (word or []) + [following]
            index += 2
            continue
        if char == "'":
            close = script.find("'", index + 1)
            close = end if close < 0 else close
            word = (word or []) + [script[index + 1 : close]]
            index = close + 1
            continue
        if char == '"':
            index, text = _double_quoted(script, index + 1)
            word = (word or []) + [text]
            continue
        if char == "$" and script.startswith(("$(", "${", "$(("), index):
            close = _closing(script, index + 1)
            word = (word or []) + [script[index:close]]
            index = close
            continue
        if char == "`":
            close = script.find("`", index + 1)
            close = end if close < 0 else close + 1
            word = (word or []) + [script[index:close]]
            index = close
            continue
        if char in " \t\r":
            close_word()
            index += 1
            continue
        if char == "#" and word is None:
            newline = script.find("\n", index)
            index = end if newline < 0 else newline
            continue
        if word is None or char in "<>" or char == "&":
            redirection = _REDIRECTION.match(script, index)
            if redirection is not None:
                if word is not None and not "".join(word).isdigit():
                    close_word()
                word = None
                index = redirection.end()
                # ``2>&1`` has its target in the next characters, ``> file`` in the next word
                skip_next = True
                continue
        operator = next((op for op in _OPERATORS if script.startswith(op, index)), None)
        if operator is not None:
            close_command()
            skip_next = False
            index += len(operator)
            continue
        word = (word or []) + [char]
        index += 1
    close_command()
    return commands


def _double_quoted(script: str, index: int) -> tuple[int, str]:
    out: list[str] = []
    while index < len(script) and script[index] != '"':
        if script[index] == "\\" and script[index + 1 : index + 2] in {'"', "\\", "$", "`", "\n"}:
            if script[index + 1] != "\n":
                out.append(script[index + 1])
            index += 2
            continue
        if script.startswith(("$(", "${"), index):
            close = _closing(script, index + 1)
            out.append(script[index:close])
            index = close
            continue
        out.append(script[index])
        index += 1
    return index + 1, "".join(out)


def _closing(script: str, start: int) -> int:
    """Index behind the bracket that closes the one at ``start``."""
    depth = 0
    for index in range(start, len(script)):
        if script[index] in "({":
            depth += 1
        elif script[index] in ")}":
            depth -= 1
            if depth == 0:
                return index + 1
    return len(script)


# ------------------------------------------------------------------------------------------------------------- flags


def parse_flags(argv: Sequence[str]) -> tuple[tuple[str, str | None], ...]:
    """(name, value) of every flag in order; the value is None for a flag that stands alone.

    Read are ``--name=value``, ``--name value``, Go's ``-name=value`` and ``_`` for ``-`` in names. Kubernetes' components
    take no positional arguments, so a word that is no flag belongs to the flag before it; a word beginning with ``-``
    never does, negative numbers apart. A lone ``--`` ends the flags.
    """
    out: list[tuple[str, str | None]] = []
    index = 0
    while index < len(argv):
        word = argv[index].strip() if argv[index].startswith((" ", "\t")) else argv[index]
        index += 1
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if equals:
            out.append((_normal(name), value))
            continue
        following = argv[index] if index < len(argv) else None
        if following is not None and (not following.startswith("-") or re.fullmatch(r"-\d+", following)):
            out.append((_normal(name), following))
            index += 1
        else:
            out.append((_normal(name), None))
    return tuple(out)


def _normal(name: str) -> str:
    return name.strip().replace("_", "-")


def config_facts(flags: Iterable[tuple[str, str | None]]) -> tuple[ConfigFact, ...]:
    """Flags as facts: one per name in the order first named, all values of :data:`KEPT` in order, no other value."""
    table: dict[str, list[str]] = {}
    for name, value in flags:
        values = table.setdefault(name, [])
        if name in KEPT:
            values.append("true" if value is None else value)
    return tuple(
        ConfigFact(name=name, values=tuple(values) if name in KEPT else None)
        for name, values in table.items()
    )


def values_of(flags: Iterable[tuple[str, str | None]], name: str) -> tuple[str, ...]:
    """Every value of a flag, in order; ``true`` where it stands alone."""
    return tuple("true" if value is None else value for found, value in flags if found == name)


def facts_of_list(entries: Any) -> tuple[tuple[str, str | None], ...]:
    """Flags that a configuration holds: a map name -> value or list, or a list of ``{name, value}``."""
    out: list[tuple[str, str | None]] = []
    if isinstance(entries, dict):
        for name, value in entries.items():
            values = value if isinstance(value, list) else [value]
            out.extend((_normal(str(name)), _text(item)) for item in values)
    elif isinstance(entries, list):
        out.extend(
            (_normal(str(entry["name"])), _text(entry.get("value")))
            for entry in entries
            if isinstance(entry, dict) and entry.get("name")
        )
    return tuple(out)


def _text(value: Any) -> str | None:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
