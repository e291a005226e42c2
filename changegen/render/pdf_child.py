"""The child process that runs WeasyPrint; started by changegen.render.pdf only."""

from __future__ import annotations

import base64
import datetime as dt
import gc
import json
import logging
import sys
from typing import Any

from changegen import times


def _limit() -> None:
    """Limit the address space where the system can."""
    from changegen.render.pdf import MEMORY_LIMIT

    try:
        import resource
    except ImportError:
        return
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = MEMORY_LIMIT if hard == resource.RLIM_INFINITY else min(MEMORY_LIMIT, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _finish(_document: Any, pdf: Any) -> None:
    """Say that every form field has its appearance: it has, and PDF/A wants it said (ISO 19005-3, 6.4.1)."""
    form = pdf.catalog.get("AcroForm")
    if form is not None:
        form["NeedAppearances"] = "false"


def main() -> None:
    """Read the request, write the PDF."""
    # The process ends with the document: looking for garbage ten thousand times only costs a sixth of the time.
    gc.set_threshold(200_000, 50, 50)
    request: dict[str, Any] = json.load(sys.stdin.buffer)
    _limit()
    import weasyprint
    from weasyprint.urls import URLFetcher

    logging.getLogger("weasyprint").setLevel(logging.ERROR)
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    fetcher = URLFetcher(allowed_protocols=("data",), fail_on_errors=True)
    created = times.instant(request["created"])
    attachments = [
        weasyprint.Attachment(
            string=base64.b64decode(item["content"]),
            name=item["name"],
            description=item["description"],
            relationship=item["relationship"],
            created=created or dt.datetime.fromtimestamp(0, dt.UTC),
            modified=created or dt.datetime.fromtimestamp(0, dt.UTC),
        )
        for item in request["attachments"]
    ]
    document = weasyprint.HTML(string=request["html"], base_url=None, url_fetcher=fetcher)
    options: dict[str, Any] = {"pdf_forms": True, "pdf_tags": True}
    if request["variant"]:
        options["pdf_variant"] = request["variant"]
        options.pop("pdf_tags")
    if request["variant"] == "pdf/a-3u":
        options["pdf_tags"] = True
    rendered = document.render(**options)
    rendered.metadata.attachments = [*(rendered.metadata.attachments or []), *attachments]
    sys.stdout.buffer.write(rendered.write_pdf(finisher=_finish, **options))


if __name__ == "__main__":
    main()
