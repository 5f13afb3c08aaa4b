// What cuBLASLt's documentation asks of a call, one by one: a product that has all of it runs, and without any one of it is refused. The
// rows are those of tests/gpu/PRECONDITIONS.md.
#include "runtime/cuda/CublasLtApi.h"
#include "tests/gpu/StandInArena.h"

#include <gmock/gmock.h>

#include <functional>
#include <ostream>

namespace stow::cuda {
namespace {

using namespace cublaslt;

struct Layout {
  int type = kReal16BF;
  uint64_t rows = 16, columns = 16;
  int64_t leading = 16;
  int batch = 1;
  int64_t stride = 0;
};

/// d = relu(a b + bias), or what a mutation makes of it. The numbers are offsets into the arena.
struct Product {
  int compute = kCompute32F, scale = kReal32F, transposeA = kOpNone, transposeB = kOpNone;
  uint32_t epilogue = kEpilogueRelu | kEpilogueBias;
  int biasType = kReal16BF;
  Address a = 0, b = 4096, c = 8192, d = 8192, bias = 12288, aux = 16384, workspace = 65536;
  int64_t auxLeading = 16;
  Layout left, right, result;
  size_t workspaceBytes = 4096, offered = 4096;
  uint32_t reductions = kReduceInComputeType, alignmentOfA = 16;
  float alpha = 1, beta = 0;
  bool hasAlpha = true, hasC = true, hasWorkspace = true, hasAlgorithm = true, hasA = true;
  std::function<void(Product &)> afterwards; ///< between the question for an algorithm and the run
};

struct Mutation {
  std::string name;
  std::function<void(Product &)> change;
};

void PrintTo(const Mutation &mutation, std::ostream *out) { *out << mutation.name; }

class Preconditions : public StandInArena {
protected:
  /// The status of the first call that refuses; 0 where all has run.
  Status run(Product of) {
    const Library &library = *open;
    OpDesc operation = nullptr;
    MatrixDesc a = nullptr, b = nullptr, d = nullptr;
    Preference preference = nullptr;
    library.matmulPreferenceCreate(&preference);
    Algorithm algorithm{};
    auto describe = [&] {
      library.matmulDescCreate(&operation, of.compute, of.scale);
      auto set = [&](int name, const auto &value) {
        library.matmulDescSetAttribute(operation, name, &value, sizeof value);
      };
      set(kTransposeA, of.transposeA), set(kTransposeB, of.transposeB);
      set(kEpilogue, of.epilogue), set(kBiasType, of.biasType);
      set(kBiasPointer, of.bias ? arena + of.bias : of.bias);
      set(kAuxPointer, of.aux ? arena + of.aux : of.aux), set(kAuxLeading, of.auxLeading);
      a = layout(of.left), b = layout(of.right), d = layout(of.result);
    };
    describe();
    auto prefer = [&](int name, const auto &value) {
      library.matmulPreferenceSetAttribute(preference, name, &value, sizeof value);
    };
    prefer(kMaxWorkspace, of.workspaceBytes), prefer(kReductionSchemes, of.reductions);
    prefer(kAlignmentA, of.alignmentOfA);
    for (int name : {kAlignmentB, kAlignmentC, kAlignmentD})
      prefer(name, uint32_t{16});
    Heuristic found{};
    int count = 0;
    if (Status status = library.matmulAlgoGetHeuristic(library.handle, operation, a, b, d, d,
                                                       preference, 1, &found, &count))
      return status;
    algorithm = found.algorithm;
    if (of.afterwards) {
      of.afterwards(of);
      describe();
    }
    auto at = [&](Address offset) { return reinterpret_cast<void *>(arena + offset); };
    Status status = library.matmul(
        library.handle, operation, of.hasAlpha ? &of.alpha : nullptr, of.hasA ? at(of.a) : nullptr,
        a, at(of.b), b, &of.beta, of.hasC ? at(of.c) : nullptr, d, at(of.d), d,
        of.hasAlgorithm ? &algorithm : nullptr, of.hasWorkspace ? at(of.workspace) : nullptr,
        of.offered, stream);
    EXPECT_EQ(driver.streamSynchronize(stream), 0);
    return status;
  }

  MatrixDesc layout(const Layout &of) const {
    MatrixDesc made = nullptr;
    open->matrixLayoutCreate(&made, of.type, of.rows, of.columns, of.leading);
    open->matrixLayoutSetAttribute(made, kBatchCount, &of.batch, sizeof of.batch);
    open->matrixLayoutSetAttribute(made, kBatchStride, &of.stride, sizeof of.stride);
    return made;
  }

  void SetUp() override {
    StandInArena::SetUp();
    open = openLibrary();
  }

  std::shared_ptr<const Library> open;
};

class BrokenPrecondition : public Preconditions, public testing::WithParamInterface<Mutation> {};

void batched(Product &of, int64_t stride) {
  of.epilogue = kEpilogueDefault;
  for (Layout *layout : {&of.left, &of.right, &of.result})
    layout->batch = 2, layout->stride = 256;
  of.result.stride = stride;
}

void gradient(Product &of) { of.epilogue = kEpilogueGeluGradient; }
void sums(Product &of) { of.epilogue = kEpilogueSumsOfB; }

const Mutation kMutations[] = {
    {"RowsOfNothing", [](Product &of) { of.left.rows = 0, of.result.rows = 0; }},
    {"LeadingBelowRows", [](Product &of) { of.right.leading = 15; }},
    {"ExtentsThatDoNotMeet", [](Product &of) { of.right.rows = 8; }},
    {"FactorsOfTwoTypes", [](Product &of) { of.right.type = kReal16F; }},
    {"ResultOfAThirdType", [](Product &of) { of.result.type = kReal16F, of.biasType = kReal16F; }},
    {"ScaleIn16Bits", [](Product &of) { of.scale = kReal16BF; }},
    {"Tf32Of16Bits", [](Product &of) { of.compute = kCompute32FFastTf32; }},
    {"AnUnknownTransposition", [](Product &of) { of.transposeA = 7; }},
    {"BiasOfAnotherType", [](Product &of) { of.biasType = kReal32F; }},
    {"NoBias", [](Product &of) { of.bias = 0; }},
    {"BiasOffItsAlignment", [](Product &of) { of.bias += 8; }},
    {"NoPreactivation", [](Product &of) { gradient(of), of.aux = 0; }},
    {"PreactivationOffItsAlignment", [](Product &of) { gradient(of), of.aux += 8; }},
    {"PreactivationNarrowerThanTheResult", [](Product &of) { gradient(of), of.auxLeading = 8; }},
    {"LeadingOfThePreactivation", [](Product &of) { gradient(of), of.auxLeading = 20; }},
    {"PreactivationUnderTheResult", [](Product &of) { gradient(of), of.aux = of.d; }},
    {"SumsUnderAFactor", [](Product &of) { sums(of), of.bias = of.b; }},
    {"SumsOfABatch", [](Product &of) { batched(of, 256), sums(of); }},
    {"BatchesOfTwoSizes", [](Product &of) { batched(of, 256), of.left.batch = 3; }},
    {"ResultsOfABatchOverEachOther", [](Product &of) { batched(of, 128); }},
    {"PartsOfSumsInTheResultsType", [](Product &of) { of.reductions = 4; }},
    {"AnAlignmentThatIsNone", [](Product &of) { of.alignmentOfA = 24; }},
    {"LessAlignedThanSaid", [](Product &of) { of.alignmentOfA = 64, of.a += 16; }},
    {"NoFactor", [](Product &of) { of.hasA = false; }},
    {"NoAlpha", [](Product &of) { of.hasAlpha = false; }},
    {"NothingToAddTo", [](Product &of) { of.beta = 1, of.hasC = false; }},
    {"NoAlgorithm", [](Product &of) { of.hasAlgorithm = false; }},
    {"NoWorkspace", [](Product &of) { of.hasWorkspace = false; }},
    {"LessWorkspaceThanAsked", [](Product &of) { of.offered = 2048; }},
    {"WorkspaceOffItsAlignment", [](Product &of) { of.workspace += 128; }},
    {"AlgorithmOfAnotherProduct",
     [](Product &of) {
       of.afterwards = [](Product &later) { later.left.columns = later.right.rows = 8; };
     }},
    {"AlgorithmOfAnotherEpilogue",
     [](Product &of) { of.afterwards = [](Product &later) { later.epilogue = kEpilogueBias; }; }},
};

TEST_P(BrokenPrecondition, IsRefused) {
  Product product;
  GetParam().change(product);
  EXPECT_NE(run(product), 0);
}

INSTANTIATE_TEST_SUITE_P(Each, BrokenPrecondition, testing::ValuesIn(kMutations),
                         [](const auto &info) { return info.param.name; });

TEST_F(Preconditions, AreAllThatIsAsked) {
  EXPECT_EQ(run({}), 0);
  Product with;
  gradient(with);
  EXPECT_EQ(run(with), 0);
  with = {}, sums(with);
  EXPECT_EQ(run(with), 0);
  with = {}, batched(with, 256);
  EXPECT_EQ(run(with), 0);
  with = {}, with.beta = 1;
  EXPECT_EQ(run(with), 0);
  with = {}, with.afterwards = [](Product &later) { later.a = 1024; };
  EXPECT_EQ(run(with), 0); // other places are the same product
}

/// "The handle is tied to the device that was current when it was made" (cublasLtCreate).
TEST_F(Preconditions, AHandleOfThisDevice) {
  const Handle made = open->handle;
  onSecondGpu([&](Stream) {
    OpDesc operation = nullptr;
    Preference preference = nullptr;
    open->matmulDescCreate(&operation, kCompute32F, kReal32F);
    open->matmulPreferenceCreate(&preference);
    MatrixDesc any = layout({});
    Heuristic found{};
    int count = 0;
    EXPECT_NE(open->matmulAlgoGetHeuristic(made, operation, any, any, any, any, preference, 1,
                                           &found, &count),
              0);
  });
}

} // namespace
} // namespace stow::cuda
