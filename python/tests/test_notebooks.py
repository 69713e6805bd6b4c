"""The notebooks run from the first cell to the last, and plots have something on them."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "MPLBACKEND", "module://matplotlib_inline.backend_inline")
    document = nbformat.read(notebook, as_version=4)
    NotebookClient(document, timeout=600, resources={"metadata": {"path": str(notebook.parent)}}).execute()
    outputs = [output for cell in document.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output.output_type == "error" for output in outputs)


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["1-first-incast", "2-compare-schemes", "3-your-own-cluster"]
