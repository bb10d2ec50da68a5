"""The examples, shortened: the same files with an earlier end."""

import importlib.util
import json
import math
import re
import shutil
from pathlib import Path

import pytest

import rubato
from conftest import TREE

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

EXAMPLES = TREE / "examples/python"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A copy of the examples, which is the working directory."""
    for path in EXAMPLES.iterdir():
        if path.suffix in (".py", ".toml"):
            shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def shorten(path, seconds, **more):
    """Ends the run after so many seconds of virtual time, and measures it three times."""
    text = re.sub(r"(?m)^target_.*\n", "", path.read_text())
    for key, value in {"max_seconds": seconds, "interval_seconds": seconds / 3.6, **more}.items():
        text, found = re.subn(rf"(?m)^{key} = .*", f"{key} = {value}", text)
        assert found, key
    path.write_text(text)


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def learned(run):
    losses = run.curve["loss"]
    assert all(math.isfinite(loss) for loss in losses)
    return losses[-1] < losses[0]


def told(path, what):
    """What the run has measured of the parameters in a file."""
    content = Path(path).read_bytes()
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    return float(metadata[f"rubato.run.held_out_{what}"])


def measures_as_told(model, measure, run, apart=1e-6):
    """The file of the run, in a fresh model, measures what the run has measured of it."""
    model.load_state_dict(rubato.load(run.model, model), strict=False)
    model.eval()
    with torch.no_grad():
        loss, accuracy = measure(model)
    assert loss == pytest.approx(told(run.model, "loss"), abs=apart)
    assert accuracy == pytest.approx(told(run.model, "accuracy"), abs=apart)


def test_mlp(place):
    if not Path("/usr/share/datasets/fashion-mnist").exists():
        pytest.skip("dataset-fashion-mnist is not installed")
    shorten(place / "mlp.toml", 40)
    run = rubato.compare("mlp.toml", sync="adsp", save=True, out="out").best
    assert learned(run) and run.accuracy > 0.3 and len(run.workers) == 3
    mlp = module(place / "mlp.py")
    measures_as_told(mlp.net(), mlp.measured, run)


def test_dialects(place):
    # Each worker has a dialect, and letters enough for it.
    dialects = module(place / "dialects.py")
    texts = [dialects.sentences(1, each, 4) for each in range(dialects.DIALECTS)]
    assert len({tuple(text.flatten().tolist()) for text in texts}) == dialects.DIALECTS
    parameters = sum(each.numel() for each in dialects.GPT().parameters())
    assert 0.75e6 < parameters < 0.85e6

    shorten(place / "dialects.toml", 1.5, batch=2)
    change(place / "dialects.py", "count=2000", "count=50")
    change(place / "dialects.py", "count=16", "count=4")
    directory = rubato.study("dialects-study.toml", out="out")
    report = (Path(directory) / "report.html").read_text()
    rows = (Path(directory) / "runs.csv").read_text().splitlines()
    assert len(rows) == 5
    for name in ("BSP", "DiLoCo", "ADSP", "tempo"):
        assert name in report and any(name.lower() in row.lower() for row in rows), rows


def test_lora(place):
    shorten(place / "lora.toml", 6, batch=2)
    change(place / "lora.py", "count=2000", "count=50")
    change(place / "lora.py", "count=16", "count=4")
    lora = module(place / "lora.py")
    lora.make_base(steps=10)
    run = rubato.compare("lora.toml", sync="bsp", save=True, out="out").best
    assert learned(run)
    adapters = 28672 * 4
    assert adapters < run.bytes_up / run.commits < 1.02 * adapters

    model = lora.GPT()
    base = rubato.load("base.safetensors", model)
    found = rubato.load(run.model, lora.adapted(model))
    assert sum(each.numel() for each in found.values()) == 28672
    assert torch.equal(model.letters.weight, base["letters.weight"])
    held_out = torch.cat([lora.sentences(2, each, 4) for each in range(lora.DIALECTS)])
    measures_as_told(model, lambda model: lora.measured(model, held_out), run)


def test_keywords(place):
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    shorten(place / "keywords.toml", 4)
    # Each word is said once, not six times: espeak-ng is started for each.
    change(place / "keywords.py", "(130, 160, 190), (35, 60)", "(160,), (45,)")
    run = rubato.compare("keywords.toml", sync="bsp", save=True, out="out").best
    assert learned(run) and len(run.workers) == 6

    keywords = module(place / "keywords.py")
    model = keywords.net()
    # espeak-ng of Debian 13 does not say a word alike twice.
    measures_as_told(model, keywords.measured, run, apart=0.05)
    assert all((each.running_var > 0).all() for each in model if hasattr(each, "running_var"))
