"""docs/python.md: its Python blocks, as printed. tests/documents.py runs the commands."""

import contextlib
import re

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

import rubato  # noqa: E402
from conftest import TREE  # noqa: E402

torch.set_num_threads(1)

PAGE = (TREE / "docs/python.md").read_text()
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE)


def file_of(name):
    """That the page writes by `cat > NAME`."""
    (found,) = re.findall(rf"(?ms)^    cat > {re.escape(name)} <<'END'\n(.*?)^    END$", PAGE)
    return "".join(line[4:] or "\n" for line in found.splitlines(True))


def test_blocks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    (tmp_path / "train.py").write_text(file_of("train.py"))
    shorter, changed = re.subn("max_seconds = 60", "max_seconds = 2", file_of("edge.toml"))
    assert changed == 1
    (tmp_path / "edge.toml").write_text(shorter)
    names = {"__name__": "train"}
    exec(file_of("train.py"), names)
    (tmp_path / "trained").mkdir()
    rubato.save(tmp_path / "trained/best.safetensors", names["net"]())
    for block in BLOCKS:
        block = block.replace("seeds=3", "seeds=1")
        exec(block, names)
        if "def train():" in block:
            with monkeypatch.context() as alone:
                alone.setenv("RUBATO_ALONE", "1")
                names["train"]()
    assert len(names["result"].runs) == 3 and (tmp_path / "net.safetensors").exists()
    with contextlib.redirect_stdout(None):
        exec(file_of("use.py"), {"__name__": "use"})
