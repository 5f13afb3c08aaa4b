"""Tests that every lint rule finds what it is there to find, and leaves the allowed neighbour alone."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import check_decisions  # noqa: E402
import check_definitions  # noqa: E402
import check_files  # noqa: E402
import check_includes  # noqa: E402
import check_readme  # noqa: E402
import check_shapes  # noqa: E402
import check_symbols  # noqa: E402
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
        self.include("compiler/import/C.cpp", '"ir/Stow.h"', '"compiler/eager/Program.h"', '"compiler/Options.h"', '"passes/plan/Budget.h"')
        self.include("compiler/D.cpp", '"compiler/import/Import.h"')
        self.assert_found(check_includes.check, "passes/order/Passes.h", "compiler/Options.h", "compiler/Options.h", "passes/plan/Budget.h",
                          "ir/plan/pack")

    def test_backends_know_the_program_and_not_each_other(self) -> None:
        self.include("codegen/cuda/A.cpp", '"codegen/program/ProgramBuilder.h"', '"codegen/host/HostTarget.h"', '"runtime/host/Library.h"')
        self.include("codegen/host/B.cpp", '"codegen/program/ProgramBuilder.h"', '"codegen/cuda/CudaTarget.h"', '"runtime/cuda/Functions.h"')
        self.include("codegen/kernels/C.cpp", '"codegen/program/ProgramBuilder.h"')
        self.include("codegen/program/D.cpp", '"codegen/Backend.h"', '"codegen/host/ProductTiles.h"', '"runtime/host/Library.h"')
        self.include("codegen/Backend.cpp", '"codegen/host/HostBackend.h"', '"codegen/cuda/CudaBackend.h"')
        self.include("compiler/E.cpp", '"codegen/program/ObjectFile.h"', '"runtime/host/Outside.h"', '"runtime/host/Arena.h"', '"codegen/cuda/Passes.h"')
        self.assert_found(check_includes.check, "codegen/host/HostTarget.h", "runtime/host/Library.h", "codegen/cuda/CudaTarget.h",
                          "runtime/cuda/Functions.h", "codegen/program/ProgramBuilder.h", "codegen/host/ProductTiles.h", "runtime/host/Library.h",
                          "runtime/host/Arena.h", "codegen/cuda/Passes.h")

    def test_lanes_know_their_side_alone(self) -> None:
        self.include("codegen/kernels/A.cpp", '"codegen/kernels/device/VectorWalk.h"', '"codegen/kernels/host/X.h"')
        self.include("codegen/kernels/host/B.cpp", '"codegen/kernels/Lanes.h"', '"codegen/kernels/device/VectorWalk.h"')
        self.include("codegen/kernels/device/C.cpp", '"codegen/kernels/Lanes.h"', '"codegen/kernels/host/X.h"')
        self.include("codegen/host/D.cpp", '"codegen/kernels/Kernels.h"', '"codegen/kernels/device/FoldParts.h"')
        self.include("codegen/cuda/E.cpp", '"codegen/kernels/device/KernelSequence.h"')
        self.assert_found(check_includes.check, "codegen/kernels/device/FoldParts.h", "codegen/kernels/host/X.h", "codegen/kernels/host/X.h",
                          "codegen/kernels/device/VectorWalk.h")

    def test_loops_know_no_onednn(self) -> None:
        self.include("runtime/host/MatMul.cpp", '"runtime/host/loops/SkinnyProduct.h"', '"runtime/host/Primitive.h"')
        self.include("runtime/host/loops/A.cpp", '"runtime/host/loops/Vectors.h"', '"runtime/host/Float16.h"', '"runtime/host/Primitive.h"',
                     '"runtime/host/pieces/Box.h"')
        self.include("runtime/program/B.cpp", '"runtime/host/loops/Vectors.h"')
        self.assert_found(check_includes.check, "runtime/host/Primitive.h", "runtime/host/pieces/Box.h", "runtime/host/loops/Vectors.h")

    def test_executables_link_no_abseil(self) -> None:
        self.include("runtime/base/A.cpp", "<absl/strings/str_cat.h>")
        self.include("compiler/B.cpp", "<absl/strings/str_cat.h>")
        self.assert_found(check_includes.check, "executables link no Abseil")

    def test_device_headers(self) -> None:
        self.include("runtime/program/A.cpp", "<cuda.h>")
        self.include("compiler/B.cpp", "<cublasLt.h>")
        self.assert_found(check_includes.check, "only the cuda rooms", "only the cuda rooms")


class Definitions(Lint):
    def test_one_class_in_two_rooms(self) -> None:
        self.write("compiler/Options.h", "namespace stow {\n/// Comment; with { braces }.\nstruct LossSpec {\n  int kind = 0;\n};\n}\n")
        self.write("runtime/program/Metrics.h", "namespace stow {\nstruct LossSpec { double weight; };\nstruct Other { struct LossSpec *next; };\n}\n")
        self.assert_found(check_definitions.check, "class stow::LossSpec is also defined in compiler/Options.h:3")

    def test_one_function_in_two_files(self) -> None:
        self.write("compiler/A.cpp", "namespace stow {\nLossSpec parseLoss(const std::string &text, int n) {\n  return {};\n}\n}\n")
        self.write("runtime/program/B.cpp", "namespace stow {\nLossSpec parseLoss(const std::string &from, int count)\n{ return {}; }\n}\n")
        self.write("runtime/program/C.h", "namespace stow {\nLossSpec parseLoss(const std::string &text, int n = 1);\n"
                   "inline int twice(int x) { return 2 * x; }\nenum class Kind { A };\n}\n")
        self.write("ir/D.cpp", "namespace stow {\ninline int twice(int number) { return number + number; }\nenum class Kind : char { B };\n}\n")
        self.assert_found(check_definitions.check, "function stow::parseLoss(const std :: string &, int) is also defined in compiler/A.cpp:2",
                          "function stow::twice(int) is also defined in ir/D.cpp:2", "class stow::Kind is also defined in ir/D.cpp:3")

    def test_neighbours(self) -> None:
        one = ("namespace stow {\nnamespace {\nstruct Row { int n; };\nint f() { return 1; }\n} // namespace\n"
               "static int g() { return 1; }\n")
        self.write("ir/A.cpp", one + "int over(int x) { return x; }\nstruct S::Impl { int a; };\n}\n")
        self.write("ir/B.cpp", one + "int over(double x) { return 1; }\nclass Row;\n}\nnamespace stow::host {\nstruct S { int n; };\n}\n")
        self.write("ir/C.cpp", "namespace stow {\nstruct S {\n  S(int n) : a{n}, b(n) { a = 1; }\n  int a, b;\n};\n"
                   "T::T(int n) : a{n}, b(n) {\n  over(1);\n}\nint over(int x) const { return x; }\n}\nint main() { return 0; }\n")
        self.write("ir/D.cpp", "const char *text = \"namespace stow { struct S {}; }\";\nint main() { return 0; }\nTEST(A, B) { }\n")
        self.write("ir/E.cpp", "TEST(A, B) { }\nnamespace stow {\ntemplate <> struct Names<int> { };\ntemplate <> struct Names<char> { };\n}\n")
        self.assert_found(check_definitions.check)


class Symbols(Lint):
    """Planted objects, as a build would make them."""

    def build(self, **sources: str) -> list[str]:
        compiler = os.environ.get("CXX") or shutil.which("clang++-22") or shutil.which("c++")
        entries = []
        for name, text in sources.items():
            room, stem = name.split("__")
            folder = self.root / room / "CMakeFiles" / f"{stem[0]}.dir"
            folder.mkdir(parents=True, exist_ok=True)
            source = self.root / f"{stem}.cpp"
            source.write_text("namespace stow {\n" + text + "\n}\n")
            output = f"{room}/CMakeFiles/{stem[0]}.dir/{stem}.cpp.o"
            subprocess.run([compiler, "-std=c++20", "-O1", "-c", str(source), "-o", str(self.root / output)], check=True)
            entries.append({"directory": str(self.root), "file": str(source), "command": f"c++ -o {output} -c {source}"})
        (self.root / "compile_commands.json").write_text(json.dumps(entries))
        return check_symbols.check(self.root, shutil.which("llvm-nm-22") or shutil.which("llvm-nm"))

    def test_two_functions_of_one_name(self) -> None:
        found = self.build(ir__A="int parse(int x) { return x; }", compiler__B="int parse(int x) { return 2 * x; }")
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], r"stow::parse\(int\) is defined in .*B\.cpp\.o and in .*A\.cpp\.o")

    def test_neighbours(self) -> None:
        shared = "inline __attribute__((noinline)) int twice(int x) { return 2 * x; }\nnamespace { struct Row { int n; }; }\nstatic int f() { return 1; }\n"
        helper = "int helper() { return 1; }"  # in two tests, which are two programs
        self.assertEqual(self.build(ir__A=shared + "int a() { return twice(f()); }", codegen__B=shared + "int b() { return twice(f()); }",
                                    tests__C=helper, tests__D=helper), [])

    def test_no_objects(self) -> None:
        (self.root / "compile_commands.json").write_text("[]")
        with self.assertRaisesRegex(SystemExit, "77"):
            check_symbols.check(self.root, "llvm-nm")


class Files(Lint):
    def test_lengths(self) -> None:
        self.write("ir/Long.cpp", "int x;\n" * 801)
        self.write("ir/Short.cpp", "int x;\n" * 800)
        self.write("ir/Function.cpp", "int f() {\n" + "  g();\n" * 79 + "}\n")
        self.write("ir/Fits.cpp", "int f(int a,\n      int b) {\n" + "  g();\n" * 77 + "}\n")
        self.write("ir/Struct.h", "struct S {\n" + "  int g();\n" * 100 + "};\n")
        self.assert_found(check_files.check, "function of 81 lines", "801 lines")

    def test_empty_files(self) -> None:
        self.write("scripts/night.sh", "")
        self.write("scripts/day.sh", "#!/bin/bash\n")
        self.assert_found(check_files.check, "scripts/night.sh: empty")

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

    def test_devices(self) -> None:
        self.write("ir/A.td", "// Runs as one call of oneDNN.\n")
        self.write("ir/B.cpp", "// A call of the device's library.\nint librarySize;\n")
        self.write("passes/C.cpp", "// The target's library.\n")
        self.assert_found(check_files.check, 'ir/A.td:1: "oneDNN" does not belong here', 'ir/B.cpp:1: "library" does not belong here')

    def test_orders(self) -> None:
        self.write("passes/solvers/A.cpp", "std::unordered_map<int, int> m;\n")
        self.write("passes/B.cpp", "std::unordered_map<int, int> m;\n")
        self.assert_found(check_files.check, "passes/solvers/A.cpp:1")

    def test_hash_tables_are_never_walked(self) -> None:
        table = "absl::flat_hash_map<std::string, std::vector<int>> known;\n"
        self.write("ir/plan/A.cpp", table + "known.insert(x);\nfor (int x : other)\n")
        self.write("passes/B.cpp", table + "for (auto &[name, id] : known)\n")
        self.write("compiler/C.cpp", table + "return *known.begin();\n")
        self.assert_found(check_files.check, 'compiler/C.cpp:2: "known" has another order', 'passes/B.cpp:2: "known"')


class Shapes(Lint):
    def test_long_classes(self) -> None:
        self.write("ir/Inside.cpp", "namespace stow {\nnamespace {\nclass Long : Base {\n" + "  int f() { return 1; }\n" * 399 + "};\n}\n}\n")
        self.write("ir/Fits.cpp", "template <typename T> class Fits {\n" + "  int f() { return g({1}); }\n" * 398 + "};\n")
        self.write("ir/Outside.cpp", "class A {\n  struct B;\n};\nstruct A::B {\n" + "  int a;\n" * 300 + "};\n"
                   "static int A::B::f(int a)\n    : a{a}, b(1) {\n" + "  if (g(x)) {\n  }\n" * 49 + "}\nint A::f() {\n" + "  h();\n" * 398 + "}\n")
        self.assert_found(check_shapes.check, "Inside.cpp:3: class Long has 401 lines", "Outside.cpp:1: class A has 403 lines",
                          "Outside.cpp:4: class A::B has 403 lines")

    def test_many_parameters(self) -> None:
        eight = "int a, Map<int, int> b, int c, int d, int e = f(1, 2), int f, int g, std::function<int(int, int)> h"
        self.write("ir/A.cpp", f"namespace stow {{\nint fits({eight}) {{\n  return call(1, 2, 3, 4, 5, 6, 7, 8, 9);\n}}\n"
                   f"template <typename T, typename U>\nvoid S::many({eight}, T i) const {{\n}}\nstruct R {{\n  R({eight}, int i)\n      : i{{i}}, j(i) {{}}\n}};\n}}\n")
        self.write("tests/gpu/B.cpp", f"CUresult cuLaunchKernel({eight}, int i) {{ return 0; }}\n")
        self.assert_found(check_shapes.check, "A.cpp:5: S::many has 9 parameters", "A.cpp:9: R has 9 parameters")

    def test_includes_inside(self) -> None:
        self.write("ir/A.cpp", '#include <a>\nnamespace stow {\n#include "ir/Passes.h.inc"\nconst char *s = "}";\n#include <b>\n} // namespace stow {\n#include <c>\n')
        self.assert_found(check_shapes.check, "A.cpp:5: b is included inside of a namespace")

    def test_numbers_of_planners(self) -> None:
        self.write("passes/solvers/A.cpp", "constexpr double shares[] = {0.97, 0.9};\nconstexpr int64_t most{4'000'000};\n  search.noise = 0.3;\n"
                   "  const double odds = 0.3;\n  f(0.5, 1e-9, 100.0, 0.01, 2.0, 1024, 12, 1'000, \"0.3\"); // 0.3\n  f(0.3);\n  return x / 2'000;\n")
        self.write("passes/solvers/Effort.h", "return 0.3 * x;\n")
        self.write("passes/memory/A.cpp", "return 0.3 * x;\n")
        self.assert_found(check_shapes.check, "A.cpp:6: 0.3 decides something", "A.cpp:7: 2'000 decides something")


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

    def test_length(self) -> None:
        self.write("README.md", "line\n" * 121)
        self.assert_found(check_readme.check, "121 lines; the limit is 120")


class Decisions(Lint):
    HOLDS = "2026-01-01-keep.md"

    def setUp(self) -> None:
        super().setUp()
        self.write("passes/fuse/Keep.cpp", "int x;\n")
        self.page(self.HOLDS, "Keep", "In `passes/fuse/Keep` and passes/fuse, `tests/*/x`.")

    def page(self, name: str, title: str, text: str) -> None:
        self.write(f"docs/decisions/{name}", f"# {title}\n\n{text}\n")

    def index(self, *rows: str) -> None:
        self.write("docs/decisions/README.md", "| day | page | status |\n|---|---|---|\n" + "".join(f"| {row} |\n" for row in rows))

    def test_all_listed(self) -> None:
        self.page("2026-01-02-new.md", "New", "x")
        self.page("2026-01-02-old.md", "Old", "Replaced on 2026-01-03 by [Keep](2026-01-01-keep.md). In `passes/Gone.cpp`.")
        self.page("2026-01-02-out.md", "Out", "Reverted on 2026-01-03: [Keep](2026-01-01-keep.md).")
        self.index("2026-01-01 | [Keep](2026-01-01-keep.md) | holds; see [New](2026-01-02-new.md)",
                   "2026-01-02 | [New](2026-01-02-new.md) | holds",
                   "2026-01-02 | [Old](2026-01-02-old.md) | replaced by [Keep](2026-01-01-keep.md)",
                   "2026-01-02 | [Out](2026-01-02-out.md) | reverted by [Keep](2026-01-01-keep.md)")
        self.assert_found(check_decisions.check)

    def test_missing_dead_and_twice(self) -> None:
        self.page("2026-01-02-new.md", "New", "x")
        row = "2026-01-01 | [Keep](2026-01-01-keep.md) | holds"
        self.index(row, row, "2026-01-05 | [Gone](2026-01-05-gone.md) | holds")
        self.assert_found(check_decisions.check, "2026-01-01-keep.md is listed twice", "2026-01-05-gone.md does not exist",
                          "2026-01-02-new.md: is missing in docs/decisions/README.md")

    def test_no_index(self) -> None:
        self.assert_found(check_decisions.check, "2026-01-01-keep.md: is missing")

    def test_titles_and_status(self) -> None:
        self.index("2026-01-01 | [Kept](2026-01-01-keep.md) | true")
        self.assert_found(check_decisions.check, '2026-01-01-keep.md is "Keep" of 2026-01-01', 'unknown status "true"')

    def test_successor_that_is_gone(self) -> None:
        self.index("2026-01-01 | [Keep](2026-01-01-keep.md) | replaced by [New](2026-01-02-new.md)")
        self.assert_found(check_decisions.check, "2026-01-02-new.md does not exist")

    def test_page_and_index_agree(self) -> None:
        self.page("2026-01-02-old.md", "Old", "Replaced on 2026-01-03 by [Keep](2026-01-01-keep.md).")
        self.page("2026-01-02-new.md", "New", "x")
        self.index("2026-01-01 | [Keep](2026-01-01-keep.md) | reverted by [New](2026-01-02-new.md)",
                   "2026-01-02 | [New](2026-01-02-new.md) | holds", "2026-01-02 | [Old](2026-01-02-old.md) | holds")
        self.assert_found(check_decisions.check, 'does not begin with "Reverted on DAY"', "does not link what came instead",
                          "begins with Replaced")

    def test_code_that_is_gone(self) -> None:
        self.page(self.HOLDS, "Keep", "In `passes/fuse/Gone.cpp`,\nand ([code](../../passes/Other.h)) passes/fuse/Keep.cpp.")
        self.index("2026-01-01 | [Keep](2026-01-01-keep.md) | holds")
        self.assert_found(check_decisions.check, "2026-01-01-keep.md:3: passes/fuse/Gone.cpp does not exist")


if __name__ == "__main__":
    unittest.main()
