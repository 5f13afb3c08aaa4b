#!/usr/bin/env python3
"""What cuDNN says of the GPU of this machine, as a line of JSON: the `cudnn_device` of codegen/cuda/chips/CHIP.json.

  device_properties.py         asks cuDNN 9.8 or later through its descriptor of device properties
"""

import ctypes
import json
import sys

# cudnn_graph.h: a descriptor's kind, its attributes and their types.
DEVICE_PROPERTIES = 38
DEVICE_ID, JSON_REPRESENTATION = 2700, 2702
INT32, CHAR = 23, 24


def open_library() -> ctypes.CDLL:
    for name in ("libcudnn.so.9", "libcudnn.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SystemExit("device_properties.py: no libcudnn.so.9 where the linker looks (LD_LIBRARY_PATH)")


def ask() -> dict:
    cudnn = open_library()
    cudnn.cudnnGetErrorString.restype = ctypes.c_char_p

    def call(name: str, *arguments: object) -> None:
        if status := getattr(cudnn, name)(*arguments):
            raise SystemExit(f"device_properties.py: {name}: {cudnn.cudnnGetErrorString(status).decode()}")

    descriptor, device = ctypes.c_void_p(), ctypes.c_int32(0)
    call("cudnnBackendCreateDescriptor", DEVICE_PROPERTIES, ctypes.byref(descriptor))
    call("cudnnBackendSetAttribute", descriptor, DEVICE_ID, INT32, ctypes.c_int64(1), ctypes.byref(device))
    call("cudnnBackendFinalize", descriptor)
    length = ctypes.c_int64()
    call("cudnnBackendGetAttribute", descriptor, JSON_REPRESENTATION, CHAR, ctypes.c_int64(0), ctypes.byref(length), None)
    text = ctypes.create_string_buffer(length.value + 1)
    call("cudnnBackendGetAttribute", descriptor, JSON_REPRESENTATION, CHAR, length, ctypes.byref(length), text)
    cudnn.cudnnGetVersion.restype = ctypes.c_size_t
    return {"cudnn": cudnn.cudnnGetVersion(), "device": json.loads(text.value)}


if __name__ == "__main__":
    sys.exit(print(json.dumps(ask())))
