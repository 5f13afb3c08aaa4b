// Object files: determinism, sharing of kernels, constants and link errors.
#include "tests/codegen/Kernels.h"

#include "codegen/Linker.h"
#include "codegen/program/ObjectFile.h"
#include "runtime/base/Error.h"

#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace stow;

namespace {

class ObjectFile : public testing::Test {
protected:
  void SetUp() override {
    directory =
        std::filesystem::temp_directory_path() / ("stow-object-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  std::string file(const std::string &name) const { return (directory / name).string(); }

  static std::string read(const std::string &path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::filesystem::path directory;
};

const char *kGraph = R"(
  func.func @g(%a: tensor<64x10xf32>, %b: tensor<64x10xf32>, %c: tensor<64x12xf32>) {
    %0 = stow.softmax %a {axis = 1 : i64} : (tensor<64x10xf32>) -> tensor<64x10xf32>
    %1 = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 64>}
        : (tensor<64x10xf32>) -> tensor<64x10xf32>
    %2 = stow.softmax %c {axis = 1 : i64} : (tensor<64x12xf32>) -> tensor<64x12xf32>
    return
  })";

// Tests that ops with the same code share a kernel.
TEST_F(ObjectFile, SameCodeIsShared) {
  LoadedKernels kernels(kGraph);
  EXPECT_EQ(kernels.info(0).index, 0);
  EXPECT_EQ(kernels.info(1).index, 0);
  EXPECT_EQ(kernels.info(2).index, 1);
  EXPECT_EQ(kernels.info(2).symbol, "k1_softmax");
}

void emit(const std::string &path, const std::string &cpu = "native", const char *text = kGraph) {
  mlir::MLIRContext context;
  context.loadDialect<StowDialect, mlir::func::FuncDialect>();
  auto graph = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  KernelModule kernels(&context);
  for (mlir::Operation &op : (*graph->getOps<mlir::func::FuncOp>().begin()).getBody().front())
    if (!mlir::isa<mlir::func::ReturnOp>(op))
      ASSERT_TRUE(succeeded(kernels.add(&op)));
  ProgramData data{kernels.symbols().vec(), "{\"version\": 1}"};
  if (failed(emitProgramObject(kernels.module(), data, {cpu}, path)))
    throw std::runtime_error("emitProgramObject failed");
}

TEST_F(ObjectFile, SameInputSameBytes) {
  emit(file("a.o")), emit(file("b.o"));
  EXPECT_EQ(read(file("a.o")), read(file("b.o")));
  EXPECT_GT(read(file("a.o")).size(), 1000u);
}

TEST_F(ObjectFile, UnknownProcessorIsAnError) {
  EXPECT_THROW(emit(file("a.o"), "pentium-9"), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(file("a.o")));
}

// Tests that kernels in bf16 call no function of the compiler's library, which the linked file would lack, where the processor has no
// instructions for bf16.
TEST_F(ObjectFile, Bf16NeedsNoLibrary) {
  emit(file("a.o"), "x86-64-v4", R"(
    func.func @g(%x: tensor<4x8x4x4xbf16>) {
      %v, %i = stow.top_k %x {axis = 3 : i64, k = 2 : i64, largest = true}
          : (tensor<4x8x4x4xbf16>) -> (tensor<4x8x4x2xbf16>, tensor<4x8x4x2xi64>)
      return
    })");
  link({{file("a.o")}, {"-lm", "-Wl,-z,defs"}, true}, file("liba.so"));
}

// Tests that constants of any length arrive with their size, aligned for vectors.
TEST_F(ObjectFile, ConstantsAndProgram) {
  emit(file("a.o"));
  for (size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{1} << 20}) {
    std::string bytes(size, 'x');
    for (size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<char>(i * 7);
    writeBlobObject("stow_constants", bytes, file("c.o"));
    std::string library = file("lib" + std::to_string(size) + ".so");
    link({{file("a.o"), file("c.o")}, {"-lm"}, true}, library);
    void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    auto *data = static_cast<const char *>(dlsym(handle, "stow_constants"));
    EXPECT_EQ(*static_cast<uint64_t *>(dlsym(handle, "stow_constants_size")), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    EXPECT_EQ(std::string(data, size), bytes);
    EXPECT_EQ(*static_cast<uint64_t *>(dlsym(handle, "stow_kernel_count")), 2u);
    auto length = *static_cast<uint64_t *>(dlsym(handle, "stow_program_json_size"));
    EXPECT_EQ(std::string(static_cast<char *>(dlsym(handle, "stow_program_json")), length),
              "{\"version\": 1}");
    dlclose(handle);
  }
}

// Tests that a failed link names the missing symbol and leaves no file behind.
TEST_F(ObjectFile, LinkErrorIsClear) {
  emit(file("a.o"));
  try {
    link({{file("a.o")}, {}, false}, file("program"));
    FAIL() << "an executable without main was linked";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("main"));
  }
  size_t files = std::distance(std::filesystem::directory_iterator(directory), {});
  EXPECT_EQ(files, 1u);
  EXPECT_THROW(writeBlobObject("stow_constants", "x", file("missing/c.o")), Error);
}

} // namespace
