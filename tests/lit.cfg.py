# lit configuration: .mlir and .test files are shell tests over the built tools.
import ctypes
import os
import shutil

import lit.formats

config.name = "Stowage"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "data"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.stow_obj_root, "tests")

config.environment["PATH"] = os.pathsep.join(
    [config.stow_tools_dir, config.llvm_tools_dir, config.environment.get("PATH", "")]
)
config.substitutions.append(("%source_dir", config.stow_source_root))
# Tests state bytes and layouts, among them what the library's calls take, which differs with AVX-512. Unit tests and whole
# models run on what the processor has.
config.environment["STOWAGE_PROGRESS"] = "none"  # standard error does not depend on how long a command takes
config.environment["ONEDNN_MAX_CPU_ISA"] = "AVX2"

# A CUDA toolkit lets kernels be assembled to cubins; without one they are checked as PTX.
cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
if os.path.exists(os.path.join(cuda, "bin", "ptxas")):
    config.available_features.add("cuda-toolkit")
    config.substitutions.append(("%cuda_toolkit", cuda))
# cuDNN plans for GPUs that are not here; without it these tests are unsupported, and count as that.
for cudnn in ["libcudnn_graph.so.9", "/usr/local/cuda/lib64/libcudnn_graph.so.9", "/usr/local/cuda/lib/libcudnn_graph.so.9"]:
    try:
        ctypes.CDLL(cudnn)
    except OSError:
        continue
    config.available_features.add("cudnn")
    break
# The stand-in for it, which is built everywhere (tests/gpu).
config.substitutions.append(("%simulated", os.path.join(config.stow_obj_root, "lib", "simulated")))
if shutil.which("python3"):
    config.available_features.add("python")
