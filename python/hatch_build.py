"""Puts librubato.so.0 into the wheel, and the libraries that not every system has beside it.

The library is $RUBATO_LIBRARY, or is built from the tree by the CMake preset `package`. Needs
patchelf and binutils.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, Set

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TREE = Path(__file__).resolve().parents[1]
# Of glibc and GCC: PyTorch and NumPy need them as well.
EVERYWHERE = re.compile(
    r"^(ld-linux[-\w]*|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|anl|util))\.so"
)


def run(*words: Any) -> str:
    return subprocess.run(
        [str(word) for word in words], check=True, capture_output=True, text=True
    ).stdout


def built_library() -> Path:
    named = os.environ.get("RUBATO_LIBRARY")
    if named:
        return Path(named).resolve()
    for words in (
        ["cmake", "--preset", "package"],
        ["cmake", "--build", "--preset", "package", "--target", "librubato"],
    ):
        subprocess.run(words, cwd=TREE, check=True)
    return (TREE / "build/package/abi/librubato.so.0").resolve()


def needed(library: Path) -> Dict[str, Path]:
    """What the library loads, directly or not, but for what is everywhere."""
    found = dict(re.findall(r"(\S+) => (/\S+)", run("ldd", library)))
    return {name: Path(path) for name, path in found.items() if not EVERYWHERE.match(name)}


def licence(library: Path) -> Path:
    """The copyright file of the Debian package that the library is from."""
    for path in (library, library.resolve()):
        for each in (path, Path("/usr") / path.relative_to("/"), Path("/", *path.parts[2:])):
            done = subprocess.run(["dpkg", "-S", str(each)], capture_output=True, text=True)
            if done.returncode == 0:
                return Path("/usr/share/doc", done.stdout.split(":")[0], "copyright")
    raise FileNotFoundError(f"no Debian package has {library}: its licence is not known")


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        if self.target_name != "wheel":
            raise RuntimeError("a wheel alone is built here: python3 -m build --wheel")
        self._place = Path(tempfile.mkdtemp(prefix="rubato-wheel-"))
        library = built_library()
        files = {"librubato.so.0": library, **needed(library)}
        licences: Set[Path] = set()
        for name, path in files.items():
            copy = self._place / name
            shutil.copyfile(path, copy)
            copy.chmod(0o755)
            run("strip", "--strip-unneeded", copy)
            run("patchelf", "--set-rpath", "$ORIGIN", copy)
            build_data["force_include"][str(copy)] = f"rubato/{name}"
            if path is not library:
                licences.add(licence(path))
        for path in sorted(licences):
            build_data["force_include"][str(path)] = f"rubato/licences/{path.parent.name}"
        build_data["force_include"][str(TREE / "LICENSE")] = "rubato/licences/rubato"
        build_data["pure_python"] = False
        glibc = platform.libc_ver()[1].replace(".", "_")
        build_data["tag"] = f"py3-none-manylinux_{glibc}_{platform.machine()}"

    def finalize(self, version: str, build_data: Dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._place)
