"""A notebook, executed as Jupyter does: compare, a plot that grows, the table, a picture."""

import os
import sys

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

from conftest import DATA  # noqa: E402
from test_results import FILE  # noqa: E402

CELLS = [
    "%matplotlib inline\nimport rubato",
    'result = rubato.compare("edge.toml", sync=["bsp", "adsp"],'
    " progress=rubato.LivePlot(every=0), out='out')",
    "result",
    'axes = result.plot(x="steps")',
    'rubato.compare("none.toml")',
]


def test_notebook(tmp_path, monkeypatch):
    (tmp_path / "edge.toml").write_text(FILE.format(data=DATA))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in CELLS])
    nbclient.NotebookClient(
        book,
        timeout=120,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    outputs = [cell.outputs for cell in book.cells]
    assert not outputs[0], outputs[0]
    live = [each for each in outputs[1] if "image/png" in each.get("data", {})]
    assert len(live) == 1, outputs[1]  # one picture, which was updated
    assert "<table>" in outputs[2][0].data["text/html"]
    assert any("image/png" in each.get("data", {}) for each in outputs[3]), outputs[3]
    assert outputs[4][0].output_type == "error" and "none.toml" in outputs[4][0].evalue
    assert outputs[4][0].ename == "BadInput"
