#!/bin/bash
# What is long and rare: the tests with the label nightly, and everything that can be built under sanitizers.
#
#   scripts/nightly.sh [release] [isa] [wheel] [asan] [tsan]      default: all five, one after another
#
#   release   ctest -C nightly -L nightly: all cases of the property tests, 500 random networks, whole networks at
#             full length, the models of the zoo, model families, 120,000 damaged files
#   isa       every test of the day under each instruction set of the machine (scripts/isa.sh)
#   wheel     the wheel, made and tried in bare systems (scripts/test_wheel.sh)
#   asan      AddressSanitizer and UndefinedBehaviorSanitizer over everything: unit tests, lit, small whole models
#   tsan      ThreadSanitizer over the thread pool, the executor and the lanes of slow memory
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
  set -- release isa wheel asan tsan
fi
for part in "$@"; do
  case "$part" in
  release)
    scripts/install.sh
    scripts/install.sh python || echo "nightly.sh: going on without PyTorch of today" >&2
    scripts/install.sh adapters || echo "nightly.sh: going on without PEFT" >&2
    scripts/build.sh release
    ctest --test-dir build/release -C nightly -L nightly --output-on-failure -j "$(nproc)"
    ;;
  isa)
    for set in $(scripts/isa.sh); do
      scripts/test.sh --isa="$set"
    done
    ;;
  wheel)
    scripts/wheel.sh
    scripts/test_wheel.sh
    ;;
  asan)
    scripts/install.sh asan
    scripts/build.sh asan
    ctest --preset asan -j "$(nproc)"
    ;;
  tsan)
    scripts/install.sh asan
    scripts/build.sh tsan ParallelTest ExecutorTest CopyLanesTest HostSlowMemoryTest
    ctest --preset tsan
    ;;
  *)
    echo "nightly.sh: unknown part \"$part\"; known are release, isa, wheel, asan and tsan" >&2
    exit 1
    ;;
  esac
done
