#!/bin/bash
# From nothing to a trained model: installs what is missing, builds the compiler, compiles a
# convolutional network for 8x8 handwritten digits under a memory budget, trains it inside its planned
# arena, and evaluates the saved weights on the test images.
#
# Leaves everything in build/demo: the executable, the plan as text, JSON and CSV, the loss of every
# step, the weights, and report.txt. Run again, it resumes: a finished run is only evaluated.
# Fails when the test accuracy is below 98 %.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh build
scripts/build.sh release stowage

out=build/demo
data=models/data/digits.npz
mkdir -p "$out"
# Ctrl-C is for the training run, which then saves; what it says on the way is still reported.
report() { tee -i -a "$out/report.new"; }
step() { printf '\n== %s\n' "$*" | report; }
run() { printf '$ %s\n' "$*" | report; "$@" 2>&1 | report; }
: >"$out/report.new"

# What is trained, and how; the budget is of the arena that keeps every activation.
training=(models/digits_cnn.onnx --loss=cross-entropy --optimizer=adamw:lr=1e-3,weight-decay=0.1)

step "Choose: what less memory costs in time"
run build/release/bin/stowage frontier "${training[@]}"

step "Compile: one file in, one executable out"
[ ! -e "$out/digits" ] || mv "$out/digits" "$out/digits.before"
run build/release/bin/stowage compile "${training[@]}" -o "$out/digits" --memory-budget=65%
# The same input gives the same bytes: weights of an earlier run belong to an equal executable only.
if ! cmp -s "$out/digits" "$out/digits.before"; then
  rm -f "$out/digits.safetensors" "$out/run.csv"
fi
rm -f "$out/digits.before"

step "Plan: every byte that training will use, before the first step"
run "$out/digits" plan
"$out/digits" plan >"$out/plan.txt"
"$out/digits" plan --format=json >"$out/plan.json"
"$out/digits" plan --format=csv >"$out/plan.csv"

step "Train: 40 epochs of AdamW, batches of 128"
resume=()
if [ -e "$out/digits.safetensors" ]; then
  resume=(--resume)
fi
run "$out/digits" train --data="$data" --epochs=40 --save="$out/digits.safetensors" \
  --log="$out/run.csv" "${resume[@]}"

step "Losses of the training batches, first to last ($out/run.csv has all)"
awk -F, 'NR > 1 { if ((NR - 2) % 44 == 0) printf "step %4d  loss %.5f\n", $1, $4; last = $0 }
  END { split(last, field, ","); printf "step %4d  loss %.5f\n", field[1], field[4] }' "$out/run.csv" | report

step "Evaluate the saved weights on 360 images the training never saw"
run "$out/digits" eval --data="$data" --weights="$out/digits.safetensors"
mv "$out/report.new" "$out/report.txt"

accuracy=$(sed -n 's/^test: .*accuracy \([0-9.]*\) %.*/\1/p' "$out/report.txt" | tail -1)
printf '\nreport: %s/report.txt\n' "$out"
awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy >= 98) }' ||
  { echo "demo.sh: test accuracy ${accuracy:-unknown} % is below the expected 98 %" >&2; exit 1; }
echo "demo.sh: test accuracy $accuracy % (at least 98 % expected)"
