"""Types that hold, and documentation that says units."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import ackgate

HERE = Path(__file__).parent.parent


def _passes(*command: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_hold() -> None:
    _passes("mypy", "--strict", "ackgate", folder=HERE)


def test_stubs_are_the_native_half_s(tmp_path: Path) -> None:
    # Elsewhere, so that the package that is installed is the one that is looked at.
    _passes("mypy.stubtest", "--mypy-config-file", str(HERE / "pyproject.toml"), "ackgate._native", folder=tmp_path)


def test_everything_public_is_documented() -> None:
    for name in ackgate.__all__:
        if name != "BUILD":
            assert inspect.getdoc(getattr(ackgate, name)), name


def test_the_first_example_holds() -> None:
    import doctest

    assert doctest.testmod(ackgate).failed == 0
