"""What setuptools makes of python/: a package that knows its program, or a refusal that says what to do."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ("pyproject.toml", "setup.py", "stowage")


@unittest.skipIf(importlib.util.find_spec("setuptools") is None, "needs the Python package setuptools")
class Packaging(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def tree(self, *, checkout: bool, program: str = "") -> Path:
        """A copy of python/, in a checkout or alone, with a program where `program` says."""
        tree = self.folder / "tree/python"
        tree.mkdir(parents=True)
        for name in PACKAGE:
            source = ROOT / "python" / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, tree / name)
        if checkout:
            (tree.parent / "CMakePresets.json").write_text("{}")
        if program:
            (tree / program).parent.mkdir(parents=True)
            (tree / program).write_text("#!/bin/sh\necho this program\n")
            (tree / program).chmod(0o755)
        return tree

    def build(self, tree: Path, what: str) -> "subprocess.CompletedProcess[str]":
        """As pip does it, by the hooks of PEP 517."""
        (self.folder / what).mkdir()
        code = f"from setuptools import build_meta; print(build_meta.build_{what}({str(self.folder / what)!r}))"
        return subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True)

    def made(self, what: str) -> Path:
        (path,) = (self.folder / what).iterdir()
        return path

    def requireRefused(self, done: "subprocess.CompletedProcess[str]", *words: str) -> None:
        self.assertNotEqual(done.returncode, 0)
        last = done.stderr.strip().splitlines()[-1]
        for word in ("stowage: ", *words):
            self.assertIn(word, last)
        self.assertEqual(list((self.folder / "wheel").iterdir()), [])

    def test_a_built_checkout_installs_a_package_that_finds_its_program(self):
        tree = self.tree(checkout=True, program="../build/release/bin/stowage")
        done = self.build(tree, "wheel")
        self.assertEqual(done.returncode, 0, done.stderr)
        installed = self.folder / "installed"
        with zipfile.ZipFile(self.made("wheel")) as wheel:
            wheel.extractall(installed)
        environment = {k: v for k, v in os.environ.items() if k not in ("STOWAGE_BINARY", "PYTHONPATH")} | {"PYTHONPATH": str(installed)}

        def found() -> "subprocess.CompletedProcess[str]":
            return subprocess.run([sys.executable, "-c", "import stowage; print(stowage.find_binary())"], cwd=self.folder, capture_output=True, text=True,
                                  env=environment)  # fmt: skip

        program = (tree.parent / "build/release/bin/stowage").resolve()
        self.assertEqual(found().stdout.strip(), str(program))
        program.unlink()
        gone = found()
        self.assertNotEqual(gone.returncode, 0)
        self.assertIn(f"was not found as {program}, where it was when this package was installed", gone.stderr)

    def test_a_checkout_without_a_build_is_refused(self):
        self.requireRefused(self.build(self.tree(checkout=True), "wheel"), "is not built", "scripts/build.sh before pip install ./python")

    def test_a_source_distribution_is_refused(self):
        done = self.build(self.tree(checkout=True), "sdist")
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.unpack_archive(self.made("sdist"), self.folder / "unpacked")
        (unpacked,) = (self.folder / "unpacked").iterdir()
        self.requireRefused(self.build(unpacked, "wheel"), "holds no compiler", "expected a wheel", "or a checkout")

    def test_a_wheel_has_its_program_inside(self):
        done = self.build(self.tree(checkout=False, program="stowage/_native/bin/stowage"), "wheel")
        self.assertEqual(done.returncode, 0, done.stderr)
        with zipfile.ZipFile(self.made("wheel")) as wheel:
            self.assertNotIn("stowage/_program.txt", wheel.namelist())


if __name__ == "__main__":
    unittest.main()
