"""Jinja environments for Markdown and HTML: immutable sandbox, strict names, escaping by default.

In both, ``{{ value }}`` is escaped for the place it is in; only our own filters give markup. The user's templates come
first in the loader, so that any part can be replaced by a file of the same name.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

from changegen import resources, times
from changegen.errors import TemplateError
from changegen.i18n import current_language, tr, trn
from changegen.model.base import Scalar
from changegen.render import compiled
from changegen.render import escape as esc
from changegen.render.fold import fold
from changegen.times import read_time


def value_text(value: object) -> str:
    """Return a check's value as words: yes/no for booleans, ``a: 1, b: 2`` for maps, ``–`` for nothing."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return tr("yes") if value else tr("no")
    if isinstance(value, Mapping):
        if not value:
            return tr("none")
        return ", ".join(f"{key}: {value_text(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            return tr("none")
        return ", ".join(value_text(item) for item in value)
    return str(value) if value != "" else tr("empty")


def _edges(text: str, made: str) -> str:
    """Return ``made`` with one space where ``text`` began or ended with white space: separators keep their shape."""
    if not made:
        return " " if text else ""
    lead = " " if text[:1].isspace() else ""
    trail = " " if text[-1:].isspace() else ""
    return f"{lead}{made}{trail}"


_CJK_GAP = re.compile(r"(?<=[。；，：！？、]) +(?=\S)")


def _joined(text: str) -> str:
    """Return text without the spaces that sentences were joined by where the language writes none."""
    return _CJK_GAP.sub("", text) if current_language().startswith("zh") else text


def _md_finalize(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, (Markup, jinja2.Undefined)):
        return value
    text = _joined(str(value))
    return Markup(_edges(text, esc.markdown(text)))  # noqa: S704  escaped for Markdown just here


def _md_code(value: object) -> Markup:
    return Markup(esc.markdown_code(str(value)))  # noqa: S704


def _md_block(value: object, language: str = "") -> Markup:
    return Markup(esc.markdown_block(str(value), language))  # noqa: S704


def _md_rich(value: object) -> Markup:
    out: list[str] = []
    for text, code in esc.rich_parts(_joined(str(value))):
        out.append(esc.markdown_code(text) if code else _edges(text, esc.markdown(text, starts_line=not out)))
    return Markup("".join(out))  # noqa: S704


def _html_code(value: object) -> Markup:
    text = esc.one_line(str(value))
    return Markup("<code>{}</code>").format(text) if text else Markup("")


def _html_block(value: object, language: str = "") -> Markup:
    del language
    return Markup("<pre><code>{}</code></pre>").format(esc.visible(str(value)))


def _html_rich(value: object) -> Markup:
    out = Markup("")
    for text, code in esc.rich_parts(_joined(esc.visible(str(value)))):
        out += Markup("<code>{}</code>").format(text) if code else escape(text)
    return out


def _html_finalize(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _joined(esc.visible(value))
    return value


def _text_finalize(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, (Markup, jinja2.Undefined)):
        return value
    text = str(value)
    return Markup(_edges(text, esc.one_line(text)))  # noqa: S704  plain text: nothing in it is markup


def _text_same(value: object, language: str = "") -> Markup:
    del language
    return Markup(esc.visible(str(value)))  # noqa: S704


def _text_rich(value: object) -> Markup:
    return Markup(esc.one_line(_joined(str(value))).replace("`", ""))  # noqa: S704


def _cap(rows: Sequence[Any], limit: int) -> Sequence[Any]:
    return rows[:limit]


def _names(values: Sequence[str], limit: int = 6) -> str:
    """Join names; more than ``limit`` are counted."""
    listed = [str(v) for v in values]
    if len(listed) <= limit:
        return ", ".join(listed)
    return tr("{names} and {n} more", names=", ".join(listed[:limit]), n=len(listed) - limit)


def _brief(value: str, limit: int = 8) -> str:
    """Shorten a list that is written in one text: more than ``limit`` items are counted; the JSON has them all."""
    items = value.split(", ")
    if len(items) <= limit + 1:
        return value
    return tr("{names} and {n} more", names=", ".join(items[:limit]), n=len(items) - limit)


def _when(value: str) -> str:
    """Return an RFC 3339 time as people write it: date, hour and minute, UTC. What is no such time stays."""
    return times.shown(value)


def utc(value: str) -> str:
    """Return a time as ``2027-01-31 21:00:00`` in UTC; what is no time stays.

    So ServiceNow stores date-time fields, and so its REST API takes them.
    """
    moment = read_time(value)
    found = None if moment is None else times.instant(moment.isoformat())
    return value if found is None else f"{found:%Y-%m-%d %H:%M:%S}"


def _dedupe(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(values))


def environment(kind: str, template_dirs: Sequence[Path] = ()) -> ImmutableSandboxedEnvironment:
    """Return the environment for ``markdown``, ``html`` or ``text``.

    Args:
        kind: how ``{{ }}`` is escaped; ``text`` shows control characters and changes nothing else.
        template_dirs: the user's folders, looked at first.
    """
    shipped = resources.folder("templates")
    loader = jinja2.FileSystemLoader([*(str(d) for d in template_dirs), str(shipped)])
    env = ImmutableSandboxedEnvironment(
        loader=loader,
        bytecode_cache=None if template_dirs else compiled.kept(kind),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize={"markdown": _md_finalize, "html": _html_finalize, "text": _text_finalize}[kind],
    )
    code, block, rich = {
        "markdown": (_md_code, _md_block, _md_rich),
        "html": (_html_code, _html_block, _html_rich),
        "text": (_text_same, _text_same, _text_rich),
    }[kind]
    env.filters.update(
        code=code,
        block=block,
        rich=rich,
        value=value_text,
        names=_names,
        brief=_brief,
        cap=_cap,
        dedupe=_dedupe,
        fold=fold,
        when=_when,
        utc=utc,
    )
    env.globals.update(tr=tr, trn=trn, lang=current_language())
    return env


def render_template(
    name: str, context: Mapping[str, Any], *, kind: str, template_dirs: Sequence[Path] = ()
) -> str:
    """Render one template.

    Raises:
        TemplateError: a template is missing, broken, names something unknown, or does what the sandbox forbids.
    """
    env = environment(kind, template_dirs)
    try:
        return env.get_template(name).render(context)
    except jinja2.TemplateNotFound as error:
        raise TemplateError(f"template {error.name} was not found", where=str(error.name)) from error
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(
            f"template is broken: {error.message}", where=f"{error.name}:{error.lineno}"
        ) from error
    except jinja2.UndefinedError as error:
        raise TemplateError(
            f"template uses a value that does not exist: {error.message}", where=place_of(error, env, name)
        ) from error
    except jinja2.exceptions.SecurityError as error:
        raise TemplateError(
            f"template does what is not allowed: {error}", where=place_of(error, env, name)
        ) from error
    except MemoryError as error:
        raise TemplateError("template takes too much memory", where=name) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise TemplateError(f"template failed: {error}", where=place_of(error, env, name)) from error


def place_of(error: BaseException, env: jinja2.Environment, name: str) -> str:
    """Return ``partials/head.md.j2:12``: the innermost line of a template that an error went through.

    Jinja gives the frames of a template the template's file and line.
    """
    folders = env.loader.searchpath if isinstance(env.loader, jinja2.FileSystemLoader) else []
    place = name
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        for folder in folders:
            if file.is_relative_to(folder):
                place = f"{file.relative_to(folder).as_posix()}:{line}"
        if str(file) == "<template>":
            place = f"{name}:{line}"
    return place


__all__ = ["Scalar", "environment", "place_of", "render_template", "value_text"]
