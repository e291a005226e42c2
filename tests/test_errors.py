from __future__ import annotations

import pytest

from changegen import errors
from changegen.errors import ChangegenError, ExitCode, InputError, exit_code


def test_a_message_says_where_what_and_what_to_do() -> None:
    error = InputError("it is cut off", where="pods.json", hint="capture it again")
    assert str(error) == "pods.json: it is cut off; capture it again"
    assert str(ChangegenError("it failed")) == "it failed"


@pytest.mark.parametrize(
    ("name", "code"),
    [("Usage", 2), ("Input", 2), ("Profile", 2), ("Template", 2), ("Connect", 1), ("Output", 1)],
)
def test_every_error_has_its_exit_code_unless_told(name: str, code: int) -> None:
    error = getattr(errors, f"{name}Error")
    assert error("x").exit_code == code
    assert error("x", exit_code=4).exit_code == 4
    assert issubclass(error, ChangegenError)


def test_a_finding_beats_an_incomplete_read() -> None:
    assert exit_code() == ExitCode.DONE == 0
    assert exit_code(incomplete=True) == ExitCode.INCOMPLETE == 4
    assert exit_code(found=True, incomplete=True) == ExitCode.FOUND == 3
