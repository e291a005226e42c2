"""The user's own templates are rendered in a child process with a limit of memory and time.

The sandbox stops a template from reaching anything; it does not stop ``{{ 'a' * 10**9 }}`` or a loop without an end.
The shipped templates need neither and are rendered in process. The child reads one request (JSON) from standard input and
writes the text to standard output; a broken template is told on standard error as JSON.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from changegen.errors import ChangegenError, TemplateError
from changegen.model.ticket import Results, Ticket

MEMORY_LIMIT = 1024**3
"""Bytes of address space; a ticket of 5,000 nodes needs a quarter of it."""
TIME_LIMIT = 60
"""Seconds of processor time."""
OUTPUT_LIMIT = 256 * 1024**2
"""Bytes of the rendered text."""
_BROKEN = 3


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is asked for."""

    kind: str
    """``markdown``, ``html``, ``paged``, ``gitlab``, ``servicenow``, ``jira``, ``servicenow-text``, ``jira-text``."""
    template_dirs: tuple[str, ...]
    ticket: Ticket | None = None
    results: Results | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a template."""

    message: str
    where: str | None = None
    hint: str | None = None


def text(value: Ticket | Results, kind: str, template_dirs: Sequence[Path] = ()) -> bytes:
    """Return the text of one kind of document, in this process.

    Raises:
        TemplateError: a template is broken.
    """
    from changegen.render import documents, forms

    if kind == "markdown":
        return documents.markdown(value, template_dirs=template_dirs).encode()
    if kind in {"html", "paged"}:
        return documents.html(value, paged=kind == "paged", template_dirs=template_dirs).encode()
    if not isinstance(value, Ticket):
        raise TypeError(kind)
    if kind == "gitlab":
        return documents.gitlab(value, template_dirs=template_dirs).encode()
    name, _, as_text = kind.partition("-")
    return (forms.as_text if as_text else forms.as_json)(value, name, template_dirs)


def guarded(
    value: Ticket | Results, kind: str, template_dirs: Sequence[Path], *, seconds: int = TIME_LIMIT
) -> bytes:
    """Return the same text, rendered in a child process with limits.

    Raises:
        TemplateError: a template is broken, takes too long or too much memory.
        ChangegenError: the child could not be started.
    """
    folders = tuple(str(Path(folder).resolve()) for folder in template_dirs)
    request = Request(
        kind=kind,
        template_dirs=folders,
        ticket=value if isinstance(value, Ticket) else None,
        results=value if isinstance(value, Results) else None,
    )
    try:
        done = subprocess.run(
            [sys.executable, "-m", "changegen.render.guard", str(seconds)],
            input=msgspec.json.encode(request),
            capture_output=True,
            timeout=seconds * 4 + 10,
            check=False,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
    except subprocess.TimeoutExpired as error:
        raise _too_slow(seconds, folders) from error
    except OSError as error:
        raise ChangegenError(f"a process for the templates could not be started: {error}") from error
    if done.returncode == 0:
        return done.stdout
    if done.returncode == _BROKEN:
        fault = msgspec.json.decode(done.stderr.strip().splitlines()[-1], type=Fault)
        raise TemplateError(fault.message, where=fault.where, hint=fault.hint)
    if done.returncode < 0:
        raise _too_slow(seconds, folders)
    raise TemplateError(
        "template takes too much memory", where=folders[0], hint=f"the limit is {MEMORY_LIMIT >> 20} MiB"
    )


def _too_slow(seconds: int, folders: Sequence[str]) -> TemplateError:
    return TemplateError(f"template does not finish within {seconds} s", where=folders[0])


def _limit(seconds: int) -> None:
    """Limit memory and time where the system can."""
    try:
        import resource
    except ImportError:
        return
    for kind, wanted in ((resource.RLIMIT_AS, MEMORY_LIMIT), (resource.RLIMIT_CPU, seconds)):
        _soft, hard = resource.getrlimit(kind)
        least = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (least, hard))


def main() -> None:
    """Read the request, write the text."""
    from changegen.render import documents, forms  # noqa: F401  before the limit of time begins to count

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    _limit(int(sys.argv[1]))
    value = request.ticket or request.results
    if value is None:
        raise SystemExit(1)
    fault = None
    made = b""
    try:
        made = text(value, request.kind, tuple(Path(folder) for folder in request.template_dirs))
    except TemplateError as error:
        fault = Fault(message=error.message, where=error.where, hint=error.hint)
    if len(made) > OUTPUT_LIMIT:
        fault = Fault(
            message="template writes too much",
            where=request.template_dirs[0],
            hint=f"the limit is {OUTPUT_LIMIT >> 20} MiB",
        )
    if fault:
        sys.stderr.write(msgspec.json.encode(fault).decode() + "\n")
        raise SystemExit(_BROKEN)
    sys.stdout.buffer.write(made)


if __name__ == "__main__":
    main()
