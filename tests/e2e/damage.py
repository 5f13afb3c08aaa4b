#!/usr/bin/python3
"""A flipped bit of an executable, and an end that is missing, are noticed: damage.py --stowage=PATH --work=DIR [--first=SEED] [--cases=N].

Every case flips one bit, drawn from its seed. Wherever it is, `stowage inspect` refuses the file. Where it is in the program and
its plan, in the initial values or in a kernel's code, the executable itself says that it is damaged before it does anything else.
"""

import argparse
import errno
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn.onnx"


def covered(data: bytes) -> list[tuple[str, int, int]]:
    """Name, position in the file and size of what the program works by, from the symbol table."""
    header = struct.unpack_from("<QQ", data, 32)  # e_phoff, e_shoff
    count, = struct.unpack_from("<H", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, header[1] + 64 * i) for i in range(count)]
    table = next(section for section in sections if section[1] == 2)
    names = sections[table[6]][4]
    found = []
    for at in range(table[4], table[4] + table[5], 24):
        name_at, info, _, section, value, size = struct.unpack_from("<IBBHQQ", data, at)
        name = data[names + name_at : data.index(b"\0", names + name_at)].decode()
        is_kernel = info & 15 == 2 and name.startswith("stow_")
        if size and (is_kernel or name in ("stow_program_json", "stow_constants")):
            found.append((name, sections[section][4] + value - sections[section][3], size))
    return found


def symbol_table_size(data: bytes) -> int:
    """Where the section headers say how many bytes of symbols there are."""
    headers, = struct.unpack_from("<Q", data, 40)
    count, = struct.unpack_from("<H", data, 60)
    return next(at + 32 for at in range(headers, headers + 64 * count, 64) if struct.unpack_from("<I", data, at + 4) == (2,))


def end_of_loaded(data: bytes) -> int:
    """Where the last byte that is loaded ends in the file."""
    headers, = struct.unpack_from("<Q", data, 32)
    count, = struct.unpack_from("<H", data, 56)
    entries = [struct.unpack_from("<IIQQQQQQ", data, headers + 56 * i) for i in range(count)]
    return max(offset + size for kind, _, offset, _, _, size, _, _ in entries if kind == 1)


def require_refused(path: Path, data: bytes) -> None:
    """The system says that it cannot start a file of these bytes."""
    path.write_bytes(data)
    path.chmod(0o755)
    try:
        done = subprocess.run([str(path), "plan"], capture_output=True, timeout=300)
    except OSError as error:
        assert error.errno in (errno.EIO, errno.ENOEXEC), (len(data), error)
        return
    raise AssertionError(f"{len(data)} bytes of an executable were started: status {done.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--cases", type=int, default=12, metavar="N")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    good, bad = args.work / "model", args.work / "damaged"

    def run(*words: object) -> subprocess.CompletedProcess:
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", timeout=300)

    done = run(args.stowage, "compile", MODEL, "-o", good, "--threads=1", "--recompute=none")
    assert done.returncode == 0, done.stderr
    whole = run(good, "plan")
    assert whole.returncode == 0 and run(args.stowage, "inspect", good).returncode == 0, "the whole file is refused"
    shutil.copy(good, bad)
    assert run("strip", bad).returncode == 0 and run(bad, "plan").stdout == whole.stdout, "strip breaks the executable"

    data = good.read_bytes()
    places = covered(data)
    kinds = {"kernels" if name not in ("stow_program_json", "stow_constants") else name for name, _, _ in places}
    assert kinds == {"kernels", "stow_program_json", "stow_constants"}, kinds
    failures, inspected, started = [], 0, 0
    endless = bytearray(data)
    endless[symbol_table_size(data) + 5] ^= 1  # 2^40 bytes more than the file has
    bad.write_bytes(endless)
    done = run(args.stowage, "inspect", bad)
    assert done.returncode == 1 and done.stderr.startswith("error: "), done.stderr
    for share in (0.0, 1e-5, 1e-4, 0.01, 0.5, 0.9, 0.999):
        cut = 16 + int(share * len(data))
        bad.write_bytes(data[:cut])
        done = run(args.stowage, "inspect", bad)
        words = f"the file is cut short: {cut} " + (f"of at least {len(data)} bytes" if cut >= 64 else "bytes of it")
        assert done.returncode == 1 and words in done.stderr, (cut, done.stderr)
    loaded = end_of_loaded(data)
    for cut in (100, loaded // 1000, loaded // 100, loaded // 2, loaded - 100000, loaded - 4097, loaded - 1):
        require_refused(bad, data[:cut])
    bad.write_bytes(data[:loaded])  # without the names and tables that are not loaded
    assert run(bad, "plan").stdout == whole.stdout, "what is not loaded is missed"
    for seed in range(args.first, args.first + args.cases):
        rng = random.Random(seed)
        kind = rng.choice(["anywhere", *sorted(kinds)])
        if kind == "anywhere":
            at, what = rng.randrange(len(data)), "the file"
        else:
            what, begin, size = rng.choice([place for place in places if place[0] == kind or kind == "kernels" and place[0] not in kinds])
            at = begin + rng.randrange(size)
        damaged = bytearray(data)
        damaged[at] ^= 1 << rng.randrange(8)
        bad.write_bytes(damaged)
        bad.chmod(0o755)
        done = run(args.stowage, "inspect", bad)
        inspected += 1
        if done.returncode != 1 or not done.stderr.startswith("error: "):
            failures.append(f"seed {seed}: byte {at} of {what}: inspect ends with {done.returncode}: {done.stderr[:300]}")
        if kind == "anywhere":
            continue  # what is outside need not come as far as the check
        done = run(bad, "plan")
        started += 1
        if done.returncode != 3 or "error: this file is damaged: its checksum was " not in done.stderr or done.stdout:
            failures.append(f"seed {seed}: byte {at} of {what}: plan ends with {done.returncode}: {done.stderr[:300]}")
    print("\n".join([*failures, f"{inspected} damaged files inspected, {started} started, {len(failures)} failures"]))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
