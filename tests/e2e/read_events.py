"""The log of a run as TensorBoard's own reader reads it, converted by stowage.convert: MODEL DATA WORK. Skips (exit code 77) where
TensorBoard is not installed.

Trains, stops, resumes: the curve that TensorBoard shows is that of the CSV log, step by step.
"""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as problem:
    print(f"skipped: {problem}; scripts/install.sh python installs TensorBoard")
    sys.exit(77)

from stowage import StowageError, convert


def train(model: str, data: str, work: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    command = [model, "train", f"--data={data}", f"--save={work}/run.safetensors", f"--log={work}/run.csv", *flags]
    return subprocess.run(command, capture_output=True, text=True)


def main() -> None:
    model, data, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    assert train(model, data, work, "--steps=30", "--validation-split=0.2").returncode == 0
    assert train(model, data, work, "--resume", "--steps=45").returncode == 0
    subprocess.run([sys.executable, "-m", "stowage.convert", "tensorboard", work / "run.csv", work / "runs"], check=True)
    with open(work / "run.csv") as file:
        rows = {int(row["step"]): row for row in csv.DictReader(file)}
    reader = EventAccumulator(str(work / "runs"), size_guidance={"scalars": 0})
    reader.Reload()
    for tag, key in (("train/loss", "loss"), ("train/learning_rate", "lr")):
        curve = {event.step: event.value for event in reader.Scalars(tag)}
        assert set(curve) == set(rows) == set(range(1, 46)), (tag, sorted(curve))
        for step, row in rows.items():
            assert abs(curve[step] - float(row[key])) <= 1e-6 * abs(float(row[key])), (tag, step, curve[step], row)
    refused = train(model, data, work, "--tensorboard=runs")
    assert refused.returncode == 1 and "python -m stowage.convert tensorboard" in refused.stderr, refused
    (work / "other.csv").write_text("a,b\n1,2\n")
    try:
        convert.tensorboard(work / "other.csv", work / "none")
    except StowageError as error:
        assert "other.csv': expected rows of step,epoch,lr,loss" in str(error), error
    else:
        raise AssertionError("a file that is no log was taken")
    assert not (work / "none").exists()
    print(f"{len(rows)} steps of two runs, as in the log")


if __name__ == "__main__":
    main()
