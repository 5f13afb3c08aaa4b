#!/usr/bin/python3
"""A disk without room is an error that names it, and leaves nothing half-written: full_disk.py --stowage=PATH --work=DIR.

The full disk is a tmpfs of 64 KiB in a mount namespace of this process's own (exit code 77, skipped, where neither root nor user
namespaces allow that), and /dev/full for standard output.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn.onnx"
SKIPPED = 77


def failure(name: str, command: list[object], expected: str, **options) -> bool:
    """Whether the command fails with exit code 1 and one message that holds `expected`."""
    done = subprocess.run([str(word) for word in command], stderr=subprocess.PIPE, text=True,
                          **({"stdout": subprocess.PIPE} | options))  # fmt: skip
    good = done.returncode == 1 and expected in done.stderr and done.stderr.startswith("error: ")
    print(f"{'ok' if good else 'FAILED'}: {name}" + ("" if good else f": exit code {done.returncode}\n{done.stderr}"), flush=True)
    return good


def inside(stowage: str, disk: Path) -> int:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
    compiled = [stowage, "compile", MODEL, "--threads=1", "--recompute=none", "-o"]
    results = [failure("an executable", [*compiled, disk / "m"], f'cannot write "{disk / "m"}": no space left on device; about ')]
    (disk / "old").write_text("old")
    results += [failure("an executable in place of another", [*compiled, disk / "old"], "no space left on device")]
    while os.statvfs(disk).f_bavail:  # what the compiler has just removed may be given back a little later
        subprocess.run(["dd", "if=/dev/zero", f"of={disk}/rest", "oflag=append", "conv=notrunc"], stderr=subprocess.DEVNULL)
    remarks = [stowage, "plan", MODEL, "--threads=1", "--recompute=none", f"--remarks={disk}/r.yaml"]
    results += [failure("remarks", remarks, f"cannot write '{disk}/r.yaml': No space left on device")]
    left = sorted(path.name for path in disk.iterdir())
    print(f"left on the disk: {left}")
    results += [left == ["old", "rest"] and (disk / "old").read_text() == "old"]
    with open("/dev/full", "w") as full:
        for flags in (["--recompute=none"], ["--stop-after=step"]):
            command = [stowage, "plan", MODEL, "--threads=1", *flags]
            results += [failure(" ".join(["standard output", *flags]), command, "cannot write to standard output: No space left on device",
                                stdout=full)]  # fmt: skip
    return 0 if all(results) else 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--inside", action="store_true", help="in the mount namespace")
    args = parser.parse_args()
    disk = args.work / "disk"
    disk.mkdir(parents=True, exist_ok=True)
    if args.inside:
        sys.exit(inside(args.stowage, disk))
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    if subprocess.run([*namespace, "mount", "-t", "tmpfs", "tmpfs", disk], capture_output=True).returncode != 0:
        print("skipped: neither root nor user namespaces allow mounting a small disk here")
        sys.exit(SKIPPED)
    sys.exit(subprocess.run([*namespace, sys.executable, __file__, *sys.argv[1:], "--inside"]).returncode)


if __name__ == "__main__":
    main()
