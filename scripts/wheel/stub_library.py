#!/usr/bin/python3
"""Writes a library of names alone, for a linker to link with: those of a system library, each in the version that a given glibc had.

  stub_library.py /lib/x86_64-linux-gnu/libc.so.6 2.34 OUT.so

What is linked with it asks for no younger glibc, or does not link.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

CLANG = "clang-22"


def version_of(name):
    found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.(\d+))?", name)
    return tuple(int(part or 0) for part in found.groups()) if found else None


def symbols(library, youngest):
    """Of each name the youngest version up to `youngest`: (name, version, kind, size)."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, capture_output=True, text=True).stdout
    chosen = {}
    for line in text.splitlines():
        found = re.match(r"\s*\d+: \S+\s+(\d+|0x[0-9a-f]+) (FUNC|IFUNC|OBJECT|NOTYPE)\s+(GLOBAL|WEAK)\s+DEFAULT\s+(\w+) (\w+)@+(\S+)$", line)
        if not found or found[4] in ("UND", "ABS") or not version_of(found[6]):
            continue
        size, kind, name, version = int(found[1], 0), found[2], found[5], found[6]
        if version_of(version) <= youngest and (name not in chosen or version_of(chosen[name][1]) < version_of(version)):
            chosen[name] = (name, version, kind, size)
    return sorted(chosen.values())


def main():
    library, limit, out = sys.argv[1], version_of("GLIBC_" + sys.argv[2]), sys.argv[3]
    found = symbols(library, limit)
    if not found:
        sys.exit(f"stub_library.py: no names of glibc in {library}")
    text, at = [], 0
    for name, version, kind, size in found:
        if kind == "OBJECT":  # room, for programs that copy it
            text += [".bss", ".balign 32"]
        else:
            text += [".text"]
        text += [f".globl stub_{at}", f".type stub_{at}, @{'object' if kind == 'OBJECT' else 'function'}", f"stub_{at}:",
                 f".skip {max(size, 1) if kind == 'OBJECT' else 1}", f".size stub_{at}, {size}", f".symver stub_{at}, {name}@@{version}, remove"]  # fmt: skip
        at += 1
    versions = sorted({version for _, version, _, _ in found}, key=version_of)
    script = "".join(f"{version} {{ {'local: *; ' if version == versions[0] else ''}}};\n" for version in versions)
    with tempfile.TemporaryDirectory() as folder:
        source, versions_file = Path(folder) / "stub.s", Path(folder) / "versions"
        source.write_text("\n".join(text) + "\n")
        versions_file.write_text(script)
        subprocess.run([CLANG, "-shared", "-nostdlib", "-fuse-ld=lld", "-Wl,-soname," + Path(library).name,
                        f"-Wl,--version-script={versions_file}", str(source), "-o", out], check=True)  # fmt: skip


if __name__ == "__main__":
    main()
