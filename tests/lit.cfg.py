# lit configuration: .mlir and .test files are shell tests over the built tools.
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

# A CUDA toolkit lets kernels be assembled to cubins; without one they are checked as PTX.
cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
if os.path.exists(os.path.join(cuda, "bin", "ptxas")):
    config.available_features.add("cuda-toolkit")
    config.substitutions.append(("%cuda_toolkit", cuda))
if shutil.which("python3"):
    config.available_features.add("python")
