// Writes the symbols that codegen would emit for the tiny model, as a C++ file.
#include "tests/runtime/program/TinyModel.h"

#include <cstdio>
#include <fstream>

int main(int argc, char **argv) {
  if (argc != 2)
    return 1;
  stow::Program program = stow::test::makeTinyModel({});
  std::span<const char> constants = stow::test::tinyImage().constants;
  std::ofstream out(argv[1]);
  auto bytes = [&](const char *name, std::span<const char> values) {
    out << "extern const char " << name << "[] = {";
    for (char value : values)
      out << static_cast<int>(value) << ',';
    out << "};\nextern const uint64_t " << name << "_size = " << values.size() << ";\n";
  };
  out << "#include \"tests/runtime/program/TinyModel.h\"\nusing namespace stow::test;\n"
         "extern \"C\" {\n";
  bytes("stow_program_json", toJson(program));
  bytes("stow_constants", constants);
  out << "extern const StowKernelFn stow_kernels[] = {tinyForward, tinyCrossEntropy, "
         "tinyMeanSquares, tinyUpdate};\nextern const uint64_t stow_kernel_count = 4;\n}\n";
  return out.good() ? 0 : 1;
}
