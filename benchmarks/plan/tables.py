#!/usr/bin/python3
"""All tables of the planner in one command: ours beside what is published, bounds, statuses and seconds.

  benchmarks/plan/tables.py --pack=DIR --remat=DIR          everything, to standard output; takes a while
  benchmarks/plan/tables.py --parts=schedule --remat=DIR
  benchmarks/plan/tables.py --dry-run                       only the commands

DIR holds published instances: packing problems as MiniMalloc's CSV, graphs as networkx JSON. Without one, a part has its
generated instances alone.

Parts:
  pack       bench-pack, with greedy orders and published seconds; then what only scales
  schedule   bench-schedule, with proofs and the annealing peer
  budgets    whole training steps at 100 to 30 % of their arena (budgets.py)
  times      predicted step times beside the clock's (times.py)
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PARTS = ["pack", "schedule", "lanes", "budgets", "times"]
GREEDY = ["nested:20000", "nested:100000", "hard:20000", "hard:62000", "recurrent:20000"]
LARGE = ["nested:1000000", "trace:1000000", "train:10000", "hard:1000000", "recurrent:60000", "recurrent:1000000"]


def commands(args: argparse.Namespace) -> list[list[str]]:
    folder = lambda path: [str(path)] if path else []  # noqa: E731
    graphs = [f"--folder={args.remat}"] if args.remat else []
    stowage = f"--stowage={args.bin / 'stowage'}"
    of_part = {
        "pack": [[str(args.bin / "bench-pack"), "--greedy", *folder(args.pack), *GREEDY], [str(args.bin / "bench-pack"), *LARGE]],
        "schedule": [[str(args.bin / "bench-schedule"), *graphs, "--prove=8", "--peer"]],
        "lanes": [[str(args.bin / "bench-lanes")]],
        "budgets": [[str(HERE / "budgets.py"), stowage]],
        "times": [[str(HERE / "times.py"), stowage, "--threads=1"]],
    }
    return [command for part in args.parts for command in of_part[part]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, help="folder of packing problems (.csv)")
    parser.add_argument("--remat", type=Path, help="folder of graphs (.json)")
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ",".join(PARTS))
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin", help="where the programs are")
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    args = parser.parse_args()
    args.parts = args.parts.split(",")
    if unknown := [part for part in args.parts if part not in PARTS]:
        parser.error(f"unknown part '{unknown[0]}'; known are {', '.join(PARTS)}")
    for folder in (args.pack, args.remat):
        if folder and not folder.is_dir():
            parser.error(f"'{folder}' is not a folder")
    todo = commands(args)
    if missing := [command[0] for command in todo if not Path(command[0]).exists()]:
        parser.error(f"no program '{missing[0]}'; build it with scripts/build.sh release, or give --bin")
    failed = 0
    for command in todo:
        print(f"$ {shlex.join(command)}", flush=True)
        if not args.dry_run:
            failed += subprocess.run(command).returncode != 0
            print(flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
