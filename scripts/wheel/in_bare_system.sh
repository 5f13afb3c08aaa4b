#!/bin/bash
# What scripts/test_wheel.sh runs inside a bare system: /tmp/wheel holds the wheel, NumPy's, a model and its data.
set -euo pipefail
cd /tmp/wheel

for tool in cc gcc g++ clang ld ld.lld as make; do
  ! command -v "$tool" || { echo "$tool is here; the system is not bare" >&2; exit 1; }
done
[ ! -e /usr/include/stdio.h ] || { echo "the C library's headers are here; the system is not bare" >&2; exit 1; }
! touch "$HOME/probe" 2>/dev/null || { echo "$HOME can be written" >&2; exit 1; }

python3 -m venv env
env/bin/pip install -q --no-index --find-links=. numpy
find env | LC_ALL=C sort >before
started=$(date +%s.%N)
env/bin/pip install -q --no-index --find-links=. stowage
env/bin/stowage plan digits_cnn.onnx --optimizer=adamw:lr=1e-3 >plan.txt
awk -v a="$started" -v b="$(date +%s.%N)" 'BEGIN { printf "installed and planned in %.1f s\n", b - a }'
head -1 plan.txt
env/bin/stowage --version

run=(digits_cnn.onnx --optimizer=adamw:lr=1e-3 --memory-budget=65% --threads=2)
env/bin/stowage compile "${run[@]}" -o digits
./digits train --data=digits.npz --epochs=5 | tail -3
./digits train --data=digits.npz --epochs=5 | grep -q 'accuracy 9' || { echo "digits did not learn" >&2; exit 1; }

env/bin/stowage compile "${run[@]}" --emit=shared -o libdigits.so
env/bin/python -B wheel_example.py
if [ -d /opt/torch ]; then
  for order in "torch jax stowage" "torch stowage jax" "jax torch stowage" "jax stowage torch" "stowage torch jax" "stowage jax torch"; do
    PYTHONPATH=/opt/torch:/opt/jax env/bin/python -B wheel_example.py $order
  done
fi

env/bin/pip uninstall -q -y stowage
find env | LC_ALL=C sort >after
diff before after || { echo "pip uninstall leaves these" >&2; exit 1; }
