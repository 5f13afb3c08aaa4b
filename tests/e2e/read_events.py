"""Event files of a run, read by TensorBoard's own reader: MODEL DATA WORK. Skips (exit code 77) where TensorBoard is not installed.

Trains, stops, resumes: the curve that TensorBoard shows is that of the CSV log, step by step.
"""

import csv
import shutil
import subprocess
import sys
import time
from pathlib import Path

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as problem:
    print(f"skipped: {problem}; scripts/install.sh python installs TensorBoard")
    sys.exit(77)


def train(model: str, data: str, work: Path, *flags: str) -> None:
    command = [model, "train", f"--data={data}", f"--save={work}/run.safetensors", f"--log={work}/run.csv", f"--tensorboard={work}/runs"]
    subprocess.run([*command, *flags], check=True, stdout=subprocess.DEVNULL)
    time.sleep(1.1)  # files are read in the order of their names, which begin with the second


def curve(work: Path, tag: str) -> "dict[int, float]":
    reader = EventAccumulator(str(work / "runs"), size_guidance={"scalars": 0})
    reader.Reload()
    return {event.step: event.value for event in reader.Scalars(tag)}


def main() -> None:
    model, data, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    train(model, data, work, "--steps=30", "--validation-split=0.2")
    assert set(curve(work, "train/loss")) == set(range(1, 31))
    # Trained further, then resumed from the save in the middle: what the second run wrote is gone.
    shutil.copy(work / "run.safetensors", work / "middle.safetensors")
    train(model, data, work, "--resume", "--steps=50")
    train(model, data, work, f"--resume={work}/middle.safetensors", "--steps=45")
    with open(work / "run.csv") as file:
        rows = {int(row["step"]): row for row in csv.DictReader(file)}
    losses, rates = curve(work, "train/loss"), curve(work, "train/learning_rate")
    assert set(losses) == set(rows) == set(range(1, 46)), sorted(losses)
    for step, row in rows.items():
        assert abs(losses[step] - float(row["loss"])) <= 1e-6 * abs(float(row["loss"])), (step, losses[step], row)
        assert abs(rates[step] - float(row["lr"])) <= 1e-6 * float(row["lr"]), (step, rates[step], row)
    assert min(curve(work, "train/samples_per_second").values()) > 0
    assert curve(work, "validation/loss") and curve(work, "validation/accuracy")
    print(f"{len(losses)} steps of three runs, as in the log")


if __name__ == "__main__":
    main()
