"""Lets setuptools build the package only where its program is: inside, as scripts/wheel.sh lays it out, or in the build of the checkout
around it, whose path the package then keeps. Everything else is in pyproject.toml."""

import os
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


def program_outside() -> "Path | None":
    """The program of the checkout around this folder; None where the tree has one inside."""
    if (HERE / "stowage/_native/bin/stowage").exists():
        return None
    if not (HERE.parent / "CMakePresets.json").exists():
        raise SystemExit("stowage: a source distribution of the Python package holds no compiler, and cannot build one; expected a wheel (Linux "
                         "on x86-64, glibc 2.34 or later: pip install --only-binary=stowage stowage), or a checkout of the repository: "
                         "scripts/install.sh && scripts/build.sh && pip install ./python")  # fmt: skip
    program = HERE.parent / "build/release/bin/stowage"
    if not os.access(program, os.X_OK):
        raise SystemExit(f"stowage: this checkout is not built: there is no {program}; expected scripts/install.sh && scripts/build.sh before "
                         "pip install ./python")  # fmt: skip
    return program


class Build(build_py):
    def run(self) -> None:
        program = program_outside()
        super().run()
        if program and not self.editable_mode:  # an editable package lies in its checkout
            (Path(self.build_lib) / "stowage/_program.txt").write_text(f"{program}\n")


setup(cmdclass={"build_py": Build})
