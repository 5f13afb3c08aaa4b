"""The compiler as a program: where it is, how it is called, what its failures become."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Optional, Union

from ._library import StowageError

PathLike = Union[str, "os.PathLike[str]"]
_INSIDE = Path(__file__).with_name("_native") / "bin/stowage"
_CHECKOUT = Path(__file__).with_name("_program.txt")  # written by setup.py where a built checkout was installed


class StowageWarning(UserWarning):
    """What the compiler, or the exporter before it, wants known of a step that it made."""


class CompileError(StowageError):
    """The compiler refused the model or a flag; the text is the compiler's own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  #: 1 bad input, 2 infeasible, 3 internal error


class DoesNotFit(CompileError):
    """STOW1002: with fit=True, the step does not fit the card."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 2)


class InfeasibleBudget(CompileError):
    """STOW1001: the step does not fit the memory budget. Bytes that the message does not state are None."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 2)
        self.budget_bytes = _stated_bytes(message, "budget")
        self.smallest_bytes = _stated_bytes(message, "smallest achievable")  #: the smallest plan that was found
        self.lower_bound_bytes = _stated_bytes(message, "proven lower bound")  #: below this no plan exists
        self.without_recompute_bytes = _stated_bytes(message, "without recompute")
        self.state_bytes = _stated_bytes(message, "of which state")


class ToolNotFound(StowageError, FileNotFoundError):
    """There is no `stowage` program where it was looked for; the text names the places."""


def _stated_bytes(message: str, key: str) -> Optional[int]:
    found = re.search(rf"^ *{re.escape(key)} +.*?(?:\((\d+) bytes\)|\b(\d+) bytes)", message, re.M)
    return int(found[1] or found[2]) if found else None


def find_binary(binary: Optional[PathLike] = None) -> str:
    """The path of the `stowage` program.

    Looked for in this order: the argument, the environment variable STOWAGE_BINARY, what an installed wheel has inside, the build of the
    checkout that was installed, the PATH, and build/release/bin of the repository this package lies in. Raises ToolNotFound that lists
    the places.
    """
    chosen, source = binary, "the argument binary"
    if chosen is None:
        chosen, source = os.environ.get("STOWAGE_BINARY") or None, "the environment variable STOWAGE_BINARY"
    if chosen is not None:
        if not os.access(chosen, os.X_OK) or os.path.isdir(chosen):
            raise ToolNotFound(f"{source} is '{os.fspath(chosen)}', which is no program; expected the path of stowage, which "
                               "scripts/build.sh makes as build/release/bin/stowage")  # fmt: skip
        return os.path.abspath(chosen)
    if os.access(_INSIDE, os.X_OK):
        return str(_INSIDE)
    places = "on the PATH"
    if _CHECKOUT.exists():
        installed = _CHECKOUT.read_text().strip()
        if os.access(installed, os.X_OK):
            return installed
        places = f"as {installed}, where it was when this package was installed, nor on the PATH"
    found = shutil.which("stowage")
    if found:
        return found
    root = Path(__file__).resolve().parents[2]
    if (root / "CMakePresets.json").exists():
        built = root / "build/release/bin/stowage"
        if os.access(built, os.X_OK):
            return str(built)
        places += f" nor as {built}"
    raise ToolNotFound(f"the program stowage was not found {places}; a wheel has it inside, this package was "
                       "installed from its sources: build it with scripts/build.sh, then name it with binary=, STOWAGE_BINARY or the PATH")  # fmt: skip


def main() -> None:
    """The command `stowage` of an installed wheel: becomes the program inside."""
    program = find_binary()
    os.execv(program, [program, *sys.argv[1:]])


def _warn(said: str) -> None:
    """What the compiler says beside its result: its warnings as Python's, each once."""
    texts = re.split(r"^(error|warning|remark|note): ", said, flags=re.M)[1:]
    for severity, text in dict.fromkeys(zip(texts[::2], texts[1::2])):
        if severity == "warning":
            warnings.warn(as_arguments(text.strip()), StowageWarning, stacklevel=caller_level())


def caller_level() -> int:
    """The stacklevel of warnings.warn that names the line which called this package."""
    here, frame, level = str(Path(__file__).parent), sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame, level = frame.f_back, level + 1
    return level


def _argument(flag: "re.Match[str]") -> str:
    name, value = flag[1].replace("-", "_"), flag[2]
    if value is None:
        return f"{name}=True" if name.startswith("no_") else name
    return f"{name}={value}" if re.fullmatch(r"[A-Z]+|\d+(\.\d+)?", value) else f'{name}="{value}"'


def as_arguments(text: str) -> str:
    """The compiler's words with its flags as arguments of this package: --memory-budget=2GiB is memory_budget="2GiB". Lines that show a
    command are left as they are."""
    flag = re.compile(r"(?<![\w=-])--([a-z][a-z-]*[a-z])(?:=([\w.:,*%-]*[\w*%]))?")
    return "\n".join(line if re.search(r"`?(stowage|stowage-opt|\./model) [a-z-]", line) else flag.sub(_argument, line)
                     for line in text.split("\n"))  # fmt: skip


def _run_shown(words: "list[str]") -> "tuple[int, str, str]":
    """Exit code, standard output and what was said on standard error, of which the lines of progress are shown as they come."""
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(words, stdout=output, stderr=subprocess.PIPE, text=True) as process:
            said = ""
            try:
                for line in process.stderr or ():
                    if re.match(r"\[\d+:\d\d\] ", line):
                        print(f"stowage {line}", end="", file=sys.stderr, flush=True)
                    else:
                        said += line
            except BaseException:
                process.kill()
                raise
        output.seek(0)
        return process.returncode, output.read(), said


def run(arguments: "list[str]", binary: Optional[PathLike] = None) -> str:
    """Runs `stowage ARGUMENTS` and returns what it printed; what it warns of becomes a StowageWarning. Raises CompileError,
    InfeasibleBudget or DoesNotFit."""
    code, printed, said = _run_shown([find_binary(binary), *arguments])
    if code == 0:
        _warn(said)
        return printed
    message = as_arguments(said.strip()) or f"stowage {arguments[0]} ended with code {code} and no message"
    if message.startswith("error: "):
        message = message[len("error: ") :]
    if code == 2 and "STOW1001" in message:
        raise InfeasibleBudget(message)
    if code == 2 and "STOW1002" in message:
        raise DoesNotFit(message)
    raise CompileError(message, code)
