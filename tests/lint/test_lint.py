"""Tests that every lint rule finds what it is there to find, and leaves the allowed neighbour alone."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import check_files  # noqa: E402
import check_includes  # noqa: E402
import check_readme  # noqa: E402
import check_tablegen  # noqa: E402
from tree import ROOMS  # noqa: E402

GOOD_PASS = '''def TidyPass : Pass<"stow-tidy", "::mlir::ModuleOp"> {
  let summary = "Tidy up";
  let description = [{
    Removes what nothing reads, in one sweep.

    Requires: any form.
    Ensures: the same form.

    ```mlir
    %y = stow.relu %x : ...
    ```
  }];
}
'''
GOOD_OP = '''def Stow_TidyOp : Stow_Op<"tidy"> {
  let summary = "Tidies";
  let description = [{
    ```mlir
    %y = stow.tidy %x
    ```
  }];
}
'''


class Lint(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for room in ROOMS:
            (self.root / room).mkdir()

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def assert_found(self, check, *messages: str) -> None:
        """Exactly one finding per message, each holding it, in order."""
        found = [str(f) for f in check(self.root)]
        self.assertEqual(len(found), len(messages), found)
        for text, message in zip(found, messages):
            self.assertIn(message, text)


class Includes(Lint):
    def include(self, path: str, *targets: str) -> None:
        self.write(path, "".join(f"#include {t}\n" for t in targets))

    def test_arrows_that_hold(self) -> None:
        self.include("passes/memory/A.cpp", '"ir/Stow.h"', '"passes/solvers/pack/P.h"', '"runtime/format/Plan.h"',
                     '"mlir/IR/Value.h"', "<vector>")
        self.include("codegen/host/B.cpp", '"passes/Target.h"', '"passes/memory/Liveness.h"', '"runtime/host/Library.h"')
        self.include("passes/solvers/pack/C.cpp", '"ir/plan/pack/Problem.h"', '"runtime/base/Bytes.h"')
        self.include("runtime/cuda/D.cpp", "<cuda.h>", "<cudnn_v9.h>")
        self.include("compiler/E.cpp", '"compiler/plan/Pack.h"', '"passes/order/Passes.h"', '"ir/plan/pack/Problem.h"')
        self.assert_found(check_includes.check)

    def test_pure_rooms_have_no_mlir(self) -> None:
        for room in ("ir/plan", "passes/solvers", "runtime/base", "runtime/program", "compiler/plan"):
            self.include(f"{room}/A.cpp", '"llvm/ADT/DenseMap.h"')
        self.assert_found(check_includes.check, *["must not know MLIR"] * 5)

    def test_upward_arrows(self) -> None:
        self.include("ir/A.cpp", '"passes/Target.h"')
        self.include("ir/plan/B.cpp", '"passes/solvers/pack/P.h"')
        self.include("passes/memory/C.cpp", '"codegen/kernels/Kernels.h"')
        self.include("passes/solvers/D.cpp", '"passes/memory/Liveness.h"')
        self.include("runtime/base/E.cpp", '"runtime/format/Plan.h"')
        self.include("runtime/program/F.cpp", '"passes/Target.h"')
        self.assert_found(check_includes.check, *["must not include"] * 6)

    def test_narrow_arrows(self) -> None:
        self.include("codegen/host/A.cpp", '"passes/order/Passes.h"', '"compiler/Options.h"')
        self.include("ir/B.cpp", '"ir/plan/pack/Problem.h"')
        self.assert_found(check_includes.check, "passes/order/Passes.h", "compiler/Options.h", "ir/plan/pack")

    def test_device_headers(self) -> None:
        self.include("runtime/program/A.cpp", "<cuda.h>")
        self.include("compiler/B.cpp", "<cublasLt.h>")
        self.assert_found(check_includes.check, "only the cuda rooms", "only the cuda rooms")


class Files(Lint):
    def test_lengths(self) -> None:
        self.write("ir/Long.cpp", "int x;\n" * 801)
        self.write("ir/Short.cpp", "int x;\n" * 800)
        self.write("ir/Function.cpp", "int f() {\n" + "  g();\n" * 79 + "}\n")
        self.write("ir/Fits.cpp", "int f(int a,\n      int b) {\n" + "  g();\n" * 77 + "}\n")
        self.write("ir/Struct.h", "struct S {\n" + "  int g();\n" * 100 + "};\n")
        self.assert_found(check_files.check, "function of 81 lines", "801 lines")

    def test_unfinished_work(self) -> None:
        self.write("ir/A.cpp", "// TO" + "DO: later\nthrow Error(\"not " + "implemented\");\n// methodology\n")
        self.assert_found(check_files.check, "A.cpp:1", "A.cpp:2")

    def test_paths_of_machines(self) -> None:
        self.write("docs/a.md", "see /wo" + "rk/main and /tmp/" + "helpers/x\n")
        self.write("docs/b.md", "the framework/model, /tmp/stowage\n")
        self.assert_found(check_files.check, "docs/a.md:1")

    def test_places(self) -> None:
        self.write("passes/A.cpp", 'getenv("X");\nstd::cerr << 1;\nllvm::errs() << 2;\n')
        self.write("compiler/B.cpp", "std::cerr << 1;\n")
        self.write("compiler/C.cpp", "static cl::opt<int> x;\n")
        self.assert_found(check_files.check, "cl::opt", "getenv", "std::cerr", "llvm::errs")

    def test_orders(self) -> None:
        self.write("passes/solvers/A.cpp", "std::unordered_map<int, int> m;\n")
        self.write("passes/B.cpp", "std::unordered_map<int, int> m;\n")
        self.assert_found(check_files.check, "passes/solvers/A.cpp:1")


class Tablegen(Lint):
    def test_documented_and_tested(self) -> None:
        self.write("passes/tidy/Passes.td", GOOD_PASS)
        self.write("tests/passes/tidy/tidy.mlir", "// RUN: x\n")
        self.write("ir/TidyOps.td", GOOD_OP)
        self.assert_found(check_tablegen.check)

    def test_missing_parts(self) -> None:
        self.write("passes/tidy/Passes.td", GOOD_PASS.replace("Ensures:", "So").replace("```mlir", "").replace(
            'let summary = "Tidy up";', ""))
        self.assert_found(check_tablegen.check, "no summary", "Ensures:", "an example", "has no test")

    def test_empty_description(self) -> None:
        self.write("passes/tidy/Passes.td", 'def TidyPass : Pass<"stow-tidy"> {\n  let summary = "Tidy";\n}\n')
        self.write("tests/passes/tidy/tidy.mlir", "// RUN: x\n")
        self.assert_found(check_tablegen.check, "what it does", "Requires:", "Ensures:", "an example")

    def test_verify_pass_needs_an_error(self) -> None:
        self.write("passes/verify/Passes.td", GOOD_PASS.replace("stow-tidy", "stow-verify-tidy"))
        self.write("tests/passes/verify/verify-tidy.mlir", "// RUN: x\n")
        self.assert_found(check_tablegen.check, "never shown anything wrong")

    def test_ops(self) -> None:
        self.write("ir/AOps.td", GOOD_OP.replace("```mlir", ""))
        self.write("ir/BOps.td", 'def Stow_BareOp : Stow_Op<"bare">;\n')
        self.assert_found(check_tablegen.check, "TidyOp has no description", "BareOp has no summary",
                          "BareOp has no description")

    def test_ops_of_a_documented_class(self) -> None:
        text = GOOD_OP.replace('def Stow_TidyOp : Stow_Op<"tidy">', "class Stow_Unary<string m> : Stow_Op<m>")
        self.write("ir/AOps.td", text + 'def Stow_NegOp : Stow_Unary<"neg">;\n')
        self.assert_found(check_tablegen.check)


class Readme(Lint):
    def test_commands(self) -> None:
        self.write("compiler/Options.cpp", 'flags.value("batch"); known("plan");\n')
        self.write("scripts/test.sh", "\n")
        self.write("README.md", "```\nscripts/test.sh\nscripts/gone.sh\nstowage plan m.onnx --batch=1 --fast\n"
                                "stowage fly m.onnx\n```\n")
        self.assert_found(check_readme.check, "scripts/gone.sh does not exist", "--fast", '"fly"')

    def test_links(self) -> None:
        self.write("docs/a.md", "[a](b.md) [b](https://example.org/x) [c](#here) [d](../README.md#x)\n")
        self.write("README.md", "\n")
        self.assert_found(check_readme.check, "b.md leads nowhere")


if __name__ == "__main__":
    unittest.main()
