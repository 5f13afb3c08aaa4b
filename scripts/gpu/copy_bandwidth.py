#!/usr/bin/env python3
"""The bandwidth of copies inside the GPU's memory, bytes read and written, as a line of JSON: what kernels are measured against.

  copy_bandwidth.py [BYTES]         asks the driver alone
"""

import ctypes
import json
import sys

RUNS = 20


def measure(size: int) -> dict:
    driver = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        if result := getattr(driver, name)(*arguments):
            raise SystemExit(f"{name} failed: error {result} of the driver")

    context, device, begin, end = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    source, target = ctypes.c_uint64(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    for address in (source, target):
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    for event in (begin, end):
        call("cuEventCreate", ctypes.byref(event), 0)
    call("cuMemsetD8_v2", source, ctypes.c_ubyte(1), ctypes.c_size_t(size))
    times = []
    for _ in range(RUNS):
        call("cuEventRecord", begin, None)
        call("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(size), None)
        call("cuEventRecord", end, None)
        call("cuEventSynchronize", end)
        ms = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(ms), begin, end)
        times.append(ms.value)
    median = sorted(times)[len(times) // 2]
    return {"bytes": size, "ms": median, "gb_per_s": 2e-6 * size / median if median else 0}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 28)))
