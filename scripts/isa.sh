#!/bin/bash
# The instruction sets that this processor has, of those that tests run under (docs/running.md), the least first.
#
#   scripts/isa.sh      e.g. AVX2 AVX512_CORE
set -euo pipefail

has() { # FLAG... : the system lists all of them
  for flag in "$@"; do
    grep -m1 "^flags" /proc/cpuinfo | grep -qw "$flag" || return 1
  done
}

sets=()
if has avx2 fma bmi2; then sets+=(AVX2); fi
if has avx512f avx512bw avx512cd avx512dq avx512vl; then
  sets+=(AVX512_CORE)
  if has avx512_bf16; then
    sets+=(AVX512_CORE_BF16)
    if has avx512_fp16; then sets+=(AVX512_CORE_FP16); fi
    if has amx_tile amx_bf16 amx_int8; then sets+=(AVX512_CORE_AMX); fi
  fi
fi
echo "${sets[*]}"
