"""A kubectl that answers from a folder of recorded JSON, so that printed commands can be run.

`run(command, folder)` runs a command line: kubectl in this process, grep and sort in a shell. It knows what the commands
of checks use: ``get`` of names, selectors and lists, ``-o jsonpath``, and ``get --raw``. How JSONPath prints follows
client-go: results of one expression with spaces between, lists and maps as compact JSON, nothing for a missing key.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import stat
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Answer(NamedTuple):
    out: str
    err: str
    code: int


@cache
def _bin() -> str:
    folder = tempfile.mkdtemp(prefix="kubectl-stub-")
    shim = Path(folder) / "kubectl"
    shim.write_text("#!/bin/sh\nexit 0\n")
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    return folder


def in_shell(commands: list[str], cwd: Path) -> None:
    """Run commands in a real shell with a kubectl that does nothing: what else runs is the quoting's fault."""
    env = {"PATH": f"{_bin()}:{os.environ['PATH']}", "HOME": "/nonexistent"}
    script = "\n".join(f"( {command} ) >/dev/null 2>&1 </dev/null" for command in commands)
    subprocess.run(["bash", "-c", script], env=env, cwd=cwd, capture_output=True, timeout=60, check=False)


def run(command: str, folder: Path) -> Answer:
    """Run a command: kubectl here, what it is piped into in a shell."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    words = list(lexer)
    first = words[: words.index("|")] if "|" in words else words
    assert first[0] == "kubectl", command
    merged = "2>&1" in first
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out if merged else err):
        try:
            main([word for word in first[1:] if word != "2>&1"], folder)
        except SystemExit as stop:
            code = int(stop.code or 0)
    if "|" not in words:
        return Answer(out.getvalue(), err.getvalue(), code)
    rest = " ".join("|" if word == "|" else shlex.quote(word) for word in words[len(first) + 1 :])
    done = subprocess.run(
        ["bash", "-c", rest], input=out.getvalue(), capture_output=True, text=True, timeout=30, check=False
    )
    return Answer(done.stdout, err.getvalue() + done.stderr, done.returncode)


# ---------------------------------------------------------------------------------------------- the stub itself

FILES = {"configmaps": "configmaps-kube-system.json", "apiservices": "apiservices.json"}
SINGULAR = {
    "configmap": "configmaps",
    "daemonset": "daemonsets",
    "deployment": "deployments",
    "statefulset": "statefulsets",
    "poddisruptionbudget": "poddisruptionbudgets",
    "lease": "leases",
    "pod": "pods",
    "node": "nodes",
}


class JsonPath:
    """A parsed JSONPath below one expression."""

    def __init__(self, text: str) -> None:
        self.steps: list[tuple[str, Any]] = []
        at = 0
        while at < len(text):
            if text[at] == ".":
                at += 1
                name, at = self._name(text, at)
                self.steps.append(("key", name))
            elif text.startswith("[*]", at):
                self.steps.append(("all", None))
                at += 3
            elif text.startswith("[?(", at):
                end = text.index(")]", at)
                inner = text[at + 3 : end]
                match = re.match(r'^@(.*?)(?:=="((?:[^"\\]|\\.)*)")?$', inner)
                assert match, inner
                wanted = None if match[2] is None else match[2].replace('\\"', '"').replace("\\\\", "\\")
                self.steps.append(("filter", (JsonPath(match[1]), wanted)))
                at = end + 2
            else:
                raise SystemExit(f"stub: JSONPath {text[at:]!r}")

    @staticmethod
    def _name(text: str, at: int) -> tuple[str, int]:
        name = ""
        while at < len(text) and text[at] not in ".[":
            if text[at] == "\\":
                at += 1
            name += text[at]
            at += 1
        return name, at

    def find(self, value: Any) -> list[Any]:
        found = [value]
        for kind, what in self.steps:
            following: list[Any] = []
            for item in found:
                if kind == "key":
                    if isinstance(item, dict) and what in item:
                        following.append(item[what])
                elif isinstance(item, list):
                    if kind == "all":
                        following += item
                    else:
                        path, wanted = what
                        for element in item:
                            results = path.find(element)
                            if results and (wanted is None or show(results[0]) == wanted):
                                following.append(element)
            found = following
        return found


def show(value: Any) -> str:
    if isinstance(value, (dict, list)):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def render(template: str, root: Any) -> str:
    tokens = re.findall(r"\{((?:\"(?:[^\"\\]|\\.)*\"|[^{}\"])*)\}|([^{}]+)", template)

    def block(position: int, value: Any) -> tuple[str, int]:
        out = ""
        while position < len(tokens):
            expression, text = tokens[position]
            position += 1
            if text:
                out += text
            elif expression.startswith('"'):
                out += json.loads(expression)
            elif expression == "end":
                return out, position
            elif expression.startswith("range "):
                after = position
                for item in JsonPath(expression[6:]).find(value):
                    part, after = block(position, item)
                    out += part
                if after == position:
                    _, after = block(position, {})
                position = after
            else:
                out += " ".join(show(item) for item in JsonPath(expression).find(value))
        return out, position

    return block(0, root)[0]


def fail(reason: str, message: str) -> None:
    print(f"Error from server ({reason}): {message}", file=sys.stderr)
    raise SystemExit(1)


def raw(folder: Path, path: str) -> None:
    if path == "/version":
        answer = json.loads((folder / "version.json").read_text())
        print(json.dumps(answer.get("serverVersion", answer), indent=2))
        return
    name = {
        "/metrics": "kube-apiserver-metrics.txt",
        "/readyz?verbose": "kube-apiserver-readyz.txt",
        "/apis": "apis.json",
    }.get(path, f"apis-{path.removeprefix('/apis/').replace('/', '-')}.json")
    file = folder / name
    if not file.is_file():
        fail("NotFound", "the server could not find the requested resource")
    sys.stdout.write(file.read_text())


@cache
def _items(file: Path) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(file.read_text())["items"]
    return items


def labels_match(item: dict[str, Any], selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    return all(
        labels.get(key) == value for key, _, value in (part.partition("=") for part in selector.split(","))
    )


def main(argv: list[str], folder: Path) -> None:
    words: list[str] = []
    options: dict[str, str] = {}
    position = 0
    while position < len(argv):
        word = argv[position]
        if word in ("-n", "-l", "-o", "--raw"):
            options[word] = argv[position + 1]
            position += 1
        elif word.startswith("--"):
            name, _, value = word.partition("=")
            options[name] = value
        elif word == "-A":
            options["-A"] = ""
        else:
            words.append(word)
        position += 1
    assert words[0] == "get", argv
    if "--raw" in options:
        raw(folder, options["--raw"])
        return
    resource = words[1].split(".")[0]
    resource = SINGULAR.get(resource, resource)
    file = folder / FILES.get(resource, f"{resource}.json")
    if not file.is_file():
        fail("NotFound", f"the server doesn't have a resource type {words[1]}")
    items = _items(file)
    if "-n" in options:
        items = [item for item in items if item["metadata"].get("namespace") == options["-n"]]
    if "-l" in options:
        items = [item for item in items if labels_match(item, options["-l"])]
    if "--field-selector" in options:
        key, _, value = options["--field-selector"].partition("=")
        items = [item for item in items if [show(x) for x in JsonPath("." + key).find(item)] == [value]]
    names = words[2:]
    document: Any = {"items": items}
    if names:
        by_name = {item["metadata"]["name"]: item for item in items}
        for name in names:
            if name not in by_name:
                fail("NotFound", f'{resource} "{name}" not found')
        document = by_name[names[0]] if len(names) == 1 else {"items": [by_name[name] for name in names]}
    assert options["-o"].startswith("jsonpath="), argv
    sys.stdout.write(render(options["-o"].removeprefix("jsonpath="), document))
