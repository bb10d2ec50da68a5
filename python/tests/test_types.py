"""The package passes mypy --strict, and Python 3.9 can parse it."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "rubato"
EXAMPLES = sorted((PACKAGE.parents[1] / "examples/python").glob("*.py"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def check_types(cache, *words):
    mypy = shutil.which("mypy")
    if mypy is None:
        pytest.skip("mypy is not installed")
    done = subprocess.run(
        [mypy, "--strict", "--config-file", str(PACKAGE.parent / "pyproject.toml"),
         "--cache-dir", str(cache), *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Success: no issues found" in done.stdout


def test_mypy(cache):
    check_types(cache, PACKAGE)


def test_mypy_of_the_examples(cache):
    # Types of PyTorch are not looked at, so that its classes are Any.
    check_types(cache, "--allow-subclassing-any", *EXAMPLES)


def test_lines_keep_their_length():
    for path in [*PACKAGE.parent.rglob("*.py"), *EXAMPLES]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert len(line) <= 100, f"{path}:{number}"


SOURCES = [*sorted(PACKAGE.glob("*.py")), *EXAMPLES]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_oldest_python(path):
    ast.parse(path.read_text(), feature_version=(3, 9))
    assert sys.version_info >= (3, 9)
