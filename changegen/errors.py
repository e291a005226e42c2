"""The errors that changegen raises on purpose, and the one table of exit codes.

::

    ChangegenError            1  the tool or its surroundings failed
    ├── UsageError            2  the command line asks for something that cannot be
    ├── InputError            2  an input is missing, holds nothing of use, or is broken as a whole
    ├── ProfileError          2  a profile cannot be understood
    ├── TemplateError         2  a user's template cannot be understood
    ├── ConnectError          1  the cluster cannot be reached, or refuses everything
    └── OutputError           1  a result cannot be written or rendered

Every message is one sentence of what is wrong; ``where`` says the place and ``hint`` what to do. A failure that is
expected in a capture (a 403 on one kind, a cut file beside whole ones) is a value
(:class:`changegen.collect.documents.Problem`) and never one of these.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status means: the same table for all commands."""

    DONE = 0
    FAILED = 1
    """The tool or its surroundings failed."""
    INVALID = 2
    """Usage, or an invalid input file."""
    FOUND = 3
    """A blocking finding, drift, or a failed verification."""
    INCOMPLETE = 4
    """A read was tried and failed, and partial results were not allowed."""


def exit_code(*, found: bool = False, incomplete: bool = False) -> ExitCode:
    """Return the status of a command that came to its end; a finding beats an incomplete read."""
    if found:
        return ExitCode.FOUND
    return ExitCode.INCOMPLETE if incomplete else ExitCode.DONE


class ChangegenError(Exception):
    """A failure that the user can understand and act on; printed as one line, without a traceback."""

    default_exit_code: ExitCode = ExitCode.FAILED

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.exit_code: int = int(self.default_exit_code if exit_code is None else exit_code)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}; {self.hint}" if self.hint else text


class UsageError(ChangegenError):
    """The command line asks for something that cannot be."""

    default_exit_code = ExitCode.INVALID


class InputError(ChangegenError):
    """An input is missing, holds nothing of use, or is broken as a whole."""

    default_exit_code = ExitCode.INVALID


class ProfileError(ChangegenError):
    """A profile cannot be understood; ``where`` is ``file:line``."""

    default_exit_code = ExitCode.INVALID


class TemplateError(ChangegenError):
    """A user's template cannot be understood; ``where`` is ``file:line``."""

    default_exit_code = ExitCode.INVALID


class ConnectError(ChangegenError):
    """The cluster cannot be reached, or refuses everything."""


class OutputError(ChangegenError):
    """A result cannot be written or rendered."""
