"""A notebook, executed as Jupyter does: compare, a plot that grows, a picture, a loop in a cell."""

import os
import sys

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
pytest.importorskip("cloudpickle")

from conftest import DATA  # noqa: E402
from test_results import FILE  # noqa: E402

OWN = """[[workers]]
name = "w"
step_seconds = 0.1
[model]
kind = "own"
[evaluation]
interval_seconds = 1
[stop]
max_seconds = 5
"""
TRAIN = """
import numpy

step = 0.5

def train():
    model = {"w": numpy.zeros(3, numpy.float32)}
    with rubato.Worker("own.toml", model) as w:
        while not w.over:
            model["w"] += step
            w.step(float(numpy.exp(-model["w"][0])), 4)
"""
CELLS = [
    "%matplotlib inline\nimport rubato",
    'result = rubato.compare("edge.toml", sync=["bsp", "adsp"],'
    " progress=rubato.LivePlot(every=0), out='out')",
    "result",
    'axes = result.plot(x="steps")',
    'rubato.compare("none.toml")',
    TRAIN,
    'rubato.compare("own.toml", train, sync="bsp", out="own").runs[0].curve["loss"][-1]',
]


def test_notebook(tmp_path, monkeypatch):
    (tmp_path / "edge.toml").write_text(FILE.format(data=DATA))
    (tmp_path / "own.toml").write_text(OWN)
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
    # A function of the notebook, with what it uses.
    assert not outputs[5] and 0 < float(outputs[6][0].data["text/plain"]) < 1e-9, outputs[6]
