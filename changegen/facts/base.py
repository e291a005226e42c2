"""What all facts share: readings, rows of the table, arguments, and how kubectl prints."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from changegen.i18n import tr
from changegen.model.base import Scalar
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import Evidence, Layer
from changegen.shell import quoted
from changegen.words import unobserved_reason

Value = Scalar | tuple[Scalar, ...] | dict[str, Scalar]
Args = Mapping[str, Scalar | tuple[str, ...]]

RAW = "kubectl get --raw "
FRESH = 'kubectl --cache-dir="$(mktemp -d)" '


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A fact of one cluster at one time."""

    value: Value = None
    known: bool = True
    reason: str = ""
    """Why it is not known."""
    gaps: dict[str, str] = {}
    """Keys of a map whose value is not known (None there), with the reason."""
    evidence: tuple[Evidence, ...] = ()


def unknown(reason: str) -> Reading:
    """A fact that could not be read, with the reason."""
    return Reading(known=False, reason=reason)


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table."""

    name: str
    layer: Layer
    title: Callable[[Args], str]
    command: Callable[[Args], str]
    evaluate: Callable[[Snapshot, Args], Reading]
    parse: Callable[[str, Args], Reading]
    """Reads the command's standard output; an empty one is not known where the command always prints."""
    reads: tuple[str, ...] = ()
    """``kinds_read`` that it needs; empty: other sources."""


# ------------------------------------------------------------------------------------------------ arguments and text


def arg(args: Args, key: str) -> str:
    """An argument as text; empty where it is not given."""
    value = args.get(key, "")
    return "" if value is None else str(value)


def args_of(args: Args, key: str) -> tuple[str, ...]:
    """An argument as a tuple of texts: one text is a tuple of one; empty where it is not given."""
    value = args.get(key)
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (str(value),)


def in_filter(text: str) -> str:
    """A text as a JSONPath string in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def field_key(text: str) -> str:
    """A map key as a JSONPath field: dots escaped."""
    return re.sub(r"([.\[\]'\"{}\\ ])", r"\\\1", text)


def kubectl_get(what: str, path: str, *, kubectl: str = "kubectl ", flags: str = "") -> str:
    """A ``kubectl get`` that prints a JSONPath.

    Args:
        what: Resource, and names or a namespace, each quoted already: ``-n ml pods train-0``.
        path: JSONPath in braces, as it is; it is quoted here.
        kubectl: The program with a space behind it; ``FRESH`` asks past kubectl's discovery cache.
        flags: Further flags.
    """
    return f"{kubectl}get {what}{' ' + flags if flags else ''} -o jsonpath={quoted(path)}"


def for_items(columns: Sequence[str], condition: str = "") -> str:
    """A JSONPath that prints a row for each item of a list, its columns with tabs between.

    Args:
        columns: JSONPaths relative to the item: ``.metadata.name``.
        condition: A filter, ``@.spec.driver=="gpu.example.com"``; all items without.
    """
    start = f"{{range .items[?({condition})]}}" if condition else "{range .items[*]}"
    return start + '{"\\t"}'.join(f"{{{column}}}" for column in columns) + '{"\\n"}{end}'


def read_rows(output: str, columns: int) -> list[list[str]]:
    """Rows of tab-separated cells, filled up with empty ones to a number of columns; empty lines are no rows."""
    rows = []
    for line in output.split("\n"):
        if not line.strip():
            continue
        cells = line.rstrip("\r").split("\t")
        rows.append(cells + [""] * (columns - len(cells)))
    return rows


def read_json(text: str) -> list[object]:
    """JSON values that kubectl printed behind each other with a space between.

    Raises:
        ValueError: It is no JSON.
    """
    decoder = json.JSONDecoder()
    found: list[object] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        value, position = decoder.raw_decode(text, position)
        found.append(value)
    return found


def as_int(text: str) -> int:
    """A number that kubectl printed; 0 for nothing."""
    return int(text) if text.strip().lstrip("-").isdigit() else 0


def seen_in(source: str, path: str, value: object, provenance: str) -> Evidence:
    """Evidence of a fact: the file, object or path that was read, the field in it, its value, and the kind of source."""
    return Evidence(
        source=source, path=path, value="" if value is None else str(value), provenance=provenance
    )


def printed_nothing() -> Reading:
    """The reading of a command that printed nothing although it always does."""
    return unknown(tr("the command printed nothing: forbidden, or the server did not answer"))


def lacking(snapshot: Snapshot, *kinds: str, namespace: str = "") -> Reading | None:
    """The reading to give when a kind was not read (or not everywhere); None when it was."""
    for kind in kinds:
        if kind not in snapshot.kinds_read:
            reasons = [item for item in snapshot.unobserved if item.what == kind]
            detail = f": {unobserved_reason(reasons[0].reason)}" if reasons else ""
            return unknown(tr("{kind} were not read{detail}", kind=kind, detail=detail))
        partial = snapshot.namespaces_read.get(kind)
        if partial is not None and (not namespace or namespace not in partial):
            return unknown(tr("{kind} were read in some namespaces only", kind=kind))
    return None


def counted(reading: Reading) -> Reading:
    """A map by key as one from each value to how many keys have it: for clusters whose maps are too long to print."""
    if not reading.known or not isinstance(reading.value, dict):
        return reading
    counts = Counter(str(value) for value in reading.value.values())
    return msgspec.structs.replace(reading, value=dict(sorted(counts.items())))


# Taints that the cluster itself sets and takes away again: what is compared is what people set.
_OWN_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)


def taint_text(taints: Iterable[tuple[str, str, str]]) -> str:
    """Taints as ``key=value:effect``, without those that the cluster sets and takes away itself."""
    kept = [taint for taint in taints if not taint[0].startswith(_OWN_TAINTS)]
    return ", ".join(
        sorted(f"{key}={value}:{effect}" if value else f"{key}:{effect}" for key, value, effect in kept)
    )
