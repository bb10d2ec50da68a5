"""The wheel: built from the library, and installed without a network."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[1]


def run(*words, **more):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=200, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    modules = [each for each in ("build", "hatchling", "ensurepip")
               if importlib.util.find_spec(each) is None]
    programs = [each for each in ("patchelf", "strip") if shutil.which(each) is None]
    if "RUBATO_LIBRARY" not in os.environ or modules or programs:
        pytest.skip(f"no wheel without RUBATO_LIBRARY and {', '.join(modules + programs)}")
    place = tmp_path_factory.mktemp("wheel")
    words = "-m build --wheel --no-isolation --skip-dependency-check".split()
    run(sys.executable, *words, "--outdir", place, PYTHON)
    (built,) = place.glob("*.whl")
    return built


def test_its_name_and_size(wheel):
    assert wheel.name.startswith("rubato-0.2.0-py3-none-manylinux_2_")
    assert wheel.stat().st_size < 3_200_000


INSTALLED = """
import rubato, sys
from pathlib import Path
here = Path(rubato.__file__).parent
assert here.is_relative_to(sys.argv[1]), here
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
for name in ("librubato.so.0", "libzmq.so.5"):
    assert str(here / name) in loaded, (name, loaded)
try:
    rubato.this("absent.toml")
except rubato.Error as error:
    print(error)
"""


def test_it_is_installed_without_network(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("PYTHONPATH", "RUBATO_LIBRARY")}
    said = run(python, "-c", INSTALLED, tmp_path, env=environment, cwd=tmp_path)
    assert "absent.toml" in said
