"""Forms of ticket systems: ServiceNow change_request and Jira Service Management as JSON and as text to paste.

Which value goes into which field is a mapping file (``forms/NAME.yaml`` beside the templates) that an owner replaces by a
file of the same name in his own template folder. A field longer than its limit is cut at a line and ends with a pointer to
the attachment. Approvals are never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import yaml
from jinja2 import TemplateError as JinjaError
from jinja2 import TemplateSyntaxError as JinjaSyntaxError

from changegen import resources
from changegen.errors import TemplateError
from changegen.i18n import language, tr
from changegen.model.base import Model
from changegen.model.ticket import Ticket
from changegen.render import view
from changegen.render.jinja import environment, place_of

FORMS = ("servicenow", "jira")


class FormField(Model, frozen=True, kw_only=True):
    """One field of a form."""

    name: str
    label: str = ""
    limit: int = 0
    """Characters that the system takes; 0: no limit."""
    template: str
    """Jinja text; the values are those of every template."""
    empty: Literal["leave out", "keep"] = "leave out"


class Form(Model, frozen=True, kw_only=True):
    """A mapping file."""

    schema: Literal["changegen.form/v1"] = "changegen.form/v1"
    name: str
    envelope: str = ""
    """Key that the fields are put under in the JSON (``fields`` for Jira)."""
    attachment: str = "ticket.pdf"
    constants: dict[str, str | dict[str, str]] = {}
    """Fixed values of the owner's own system (project, issue type)."""
    fields: tuple[FormField, ...]


def load(name: str, template_dirs: Sequence[Path] = ()) -> Form:
    """Return the mapping of ``servicenow`` or ``jira``.

    Raises:
        TemplateError: the file is missing or not of the form.
    """
    for folder in [*template_dirs, Path(str(resources.folder("templates")))]:
        path = folder / "forms" / f"{name}.yaml"
        if path.is_file():
            try:
                return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Form)
            except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
                raise TemplateError(f"form mapping is broken: {error}", where=str(path)) from error
    raise TemplateError(f"form {name} was not found", hint=f"known forms: {', '.join(FORMS)}")


def cut(text: str, limit: int, attachment: str) -> str:
    """Return ``text`` within ``limit`` characters; what is cut ends with a pointer to the attachment."""
    if not limit or len(text) <= limit:
        return text
    pointer = tr("… continued in {attachment}", attachment=attachment)
    if limit <= len(pointer) + 1:
        return text[:limit]
    head = text[: limit - len(pointer) - 1]
    at_line = head.rfind("\n")
    if at_line > limit // 2:
        return f"{head[:at_line]}\n{pointer}"
    return f"{head.rstrip()} {pointer}"


def values(ticket: Ticket, form: Form, template_dirs: Sequence[Path] = ()) -> dict[str, str]:
    """Return the form's fields filled from the ticket, in the form's order.

    Raises:
        TemplateError: a field's template is broken or names something unknown.
    """
    made: dict[str, str] = {}
    with language(ticket.lang):
        env = environment("text", template_dirs)
        context = view.context(ticket)
        for field in form.fields:
            try:
                text = str(env.from_string(field.template).render(context)).strip()
            except JinjaSyntaxError as error:
                raise _broken(
                    form, field, f"{error.message} ({error.name or 'template'}:{error.lineno})"
                ) from error
            except (JinjaError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise _broken(form, field, f"{error} ({place_of(error, env, 'template')})") from error
            text = cut(text, field.limit, form.attachment)
            if text or field.empty == "keep":
                made[field.name] = text
    return made


def _broken(form: Form, field: FormField, problem: str) -> TemplateError:
    return TemplateError(f"field {field.name}: {problem}", where=f"forms/{form.name}.yaml")


def as_json(ticket: Ticket, name: str, template_dirs: Sequence[Path] = ()) -> bytes:
    """Return the JSON body to post."""
    form = load(name, template_dirs)
    body: dict[str, object] = {**form.constants, **values(ticket, form, template_dirs)}
    if form.envelope:
        body = {form.envelope: body}
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def as_text(ticket: Ticket, name: str, template_dirs: Sequence[Path] = ()) -> bytes:
    """Return the same fields as text to paste, one headed block a field."""
    form = load(name, template_dirs)
    labels = {f.name: f.label or f.name for f in form.fields}
    blocks = [f"== {labels[key]} ==\n{text}" for key, text in values(ticket, form, template_dirs).items()]
    return ("\n\n".join(blocks) + "\n").encode()
