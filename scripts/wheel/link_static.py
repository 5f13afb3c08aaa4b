#!/usr/bin/python3
"""Links the compiler of a wheel: link_static.py FOLDER COMMAND... runs the ordinary build's link command with Debian's archives in place of
its shared libraries. oneDNN has no archive and stays; the wheel brings it along. FOLDER holds the objects that scripts/wheel.sh has made."""

import glob
import re
import subprocess
import sys
from pathlib import Path

SYSTEM = "/usr/lib/x86_64-linux-gnu"
# oneDNN stays shared; libonnx_proto, without an archive in Debian, is compiled from its .proto file.
SHARED, COMPILED = "dnnl", "onnx_proto"

# Where the installed program looks for them: in the wheel, and where pip puts NVIDIA's.
SEARCHED = ["$ORIGIN/../lib", "$ORIGIN/../../../nvidia/cudnn/lib", "$ORIGIN/../../../nvidia/cu13/lib"]


def archive_of(argument):
    """What is linked in place of a word of the command."""
    found = re.fullmatch(r".*/lib([\w+-]+)\.so[.\d]*", argument)
    if not found or found[1] == SHARED:
        return [argument]
    if found[1] == COMPILED or found[1].startswith("absl_"):
        return []
    archive = Path(SYSTEM) / f"lib{found[1]}.a"
    if not archive.exists():
        sys.exit(f"link_static.py: {argument} has no archive {archive}; install the package that has it")
    return [str(archive)]


def gcc_archive(name):
    return subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()


def main():
    folder, command = sys.argv[1], sys.argv[2:]
    # oneDNN calls the pool (runtime/base/Parallel.h), and is not to find this program's C++ library beside the machine's.
    Path(f"{folder}/visible").write_text("{ global: GOMP_*; omp_*; local: *; };\n")
    words = [word for argument in command for word in archive_of(argument)]
    words += sorted(glob.glob(f"{SYSTEM}/libabsl_*.a"))
    words += [gcc_archive("libgfortran.a"), gcc_archive("libquadmath.a"), f"{folder}/onnx-ml.pb.o", f"{folder}/glibc.o",
              "-static-libstdc++", "-static-libgcc", "-Wl,-s", "-Wl,-rpath," + ":".join(SEARCHED), f"-Wl,--version-script={folder}/visible"]  # fmt: skip
    sys.exit(subprocess.run(words).returncode)


if __name__ == "__main__":
    main()
