// A stand-in for cuBLASLt over the stand-in for libcuda: plain loops in double, checked descriptors.
//
// Products run as host functions of the stream, so that they take their place among kernels and copies,
// captured ones too. Operands are looked up in the device's memory at that time; what lies outside an
// allocation fails, and so does what the real library refuses: sizes that do not match, leading
// dimensions that are too small, scratch beyond the limit. Scratch is overwritten before and after, all of
// it: an operand inside loses its values.
#include "tests/gpu/driver/Elements.h"
#include "tests/gpu/driver/StandIn.h"

#include <cublasLt.h>
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

using stow::sim::load, stow::sim::store;

struct Matrix {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t count = 1;
  int64_t step = 0;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;

  size_t elementBytes() const { return type == CUDA_R_32F ? 4 : 2; }
  bool isKnown() const { return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF; }
  /// Bytes from the first element to behind the last.
  size_t bytes() const {
    return ((count - 1) * step + (columns - 1) * leading + rows) * elementBytes();
  }
};

struct Operation {
  cublasComputeType_t compute;
  cudaDataType scale;
  int32_t transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  uint64_t bias = 0;
  int32_t biasType = -1;
  uint64_t aux = 0;
  int64_t auxLeading = 0;

  /// The bits of cublasLtEpilogue_t: a function, with or without a bias.
  uint32_t function() const { return epilogue & ~uint32_t{CUBLASLT_EPILOGUE_BIAS}; }
  bool hasBias() const { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  /// Sums of a factor over the contracted extent are written where a bias would be read.
  bool hasSums() const {
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
};

/// cublasLtMatmul: "Pointer to the workspace buffer allocated in the GPU memory. Must be 256B aligned".
constexpr uint64_t kWorkspaceAlignment = 256;

struct Limits {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256}; ///< of A, B, C, D
};

// The library's types are names of structures of its own; these take their places.
Matrix *of(cublasLtMatrixLayout_t desc) { return reinterpret_cast<Matrix *>(desc); }
Operation *of(cublasLtMatmulDesc_t desc) { return reinterpret_cast<Operation *>(desc); }
Limits *of(cublasLtMatmulPreference_t desc) { return reinterpret_cast<Limits *>(desc); }

template <typename Value> cublasStatus_t take(Value &field, const void *buffer, size_t bytes) {
  if (bytes != sizeof(Value))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, buffer, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// For types that are known.
stow::DType elementType(cudaDataType type) {
  return type == CUDA_R_32F    ? stow::DType::F32
         : type == CUDA_R_16BF ? stow::DType::BF16
                               : stow::DType::F16;
}

/// One product, to be run when the stream comes to it.
struct Work {
  Operation operation;
  Matrix a, b, d;
  uint64_t aAt, bAt, cAt, dAt, scratchAt;
  size_t scratchBytes;
  float alpha, beta;
  uint64_t algorithm; ///< its number
};

/// Where an algorithm has its number, behind scratch and alignments, and what product it is for.
constexpr size_t kNumber = 5, kQuestion = 6;

/// What the stand-in for libcuda offers.
template <typename Function> Function driverFunction(const char *name) {
  static void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  return reinterpret_cast<Function>(driver ? dlsym(driver, name) : nullptr);
}

CUcontext contextAtHand() {
  auto *current = driverFunction<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  return current && current(&context) == CUDA_SUCCESS ? context : nullptr;
}

/// A handle is for the device that was current when it was made (cublasLtCreate: "tied to the current CUDA device").
bool isOfThisDevice(cublasLtHandle_t handle) {
  return handle && *reinterpret_cast<const CUcontext *>(handle) == contextAtHand();
}

/// STANDIN_CUBLASLT_ALGORITHMS=30,10,20: how long each algorithm for any product takes, in the order in which they are named; -1: it
/// fails when it is to run.
std::vector<double> microseconds() {
  std::vector<double> all;
  const char *text = std::getenv("STANDIN_CUBLASLT_ALGORITHMS");
  for (const char *at = text ? text : "0"; *at != 0; at += *at == ',') {
    char *end = nullptr;
    all.push_back(std::strtod(at, &end));
    at = end;
  }
  return all;
}

void *place(uint64_t address, size_t bytes, const char *what) {
  static auto *find =
      reinterpret_cast<decltype(&standinHostPointer)>(dlsym(RTLD_DEFAULT, "standinHostPointer"));
  static void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (!find && driver)
    find = reinterpret_cast<decltype(&standinHostPointer)>(dlsym(driver, "standinHostPointer"));
  void *found = find ? find(address, bytes) : nullptr;
  if (!found) {
    std::fprintf(stderr, "cublasLtMatmul: %s at %#llx is not inside an allocation\n", what,
                 static_cast<unsigned long long>(address));
    std::abort();
  }
  return found;
}

// CUBLASLT_EPILOGUE_GELU and its gradient: by tanh, as PyTorch's gelu(approximate="tanh").
constexpr double kGeluSlope = 0.7978845608028654, kGeluCube = 0.044715;

double gelu(double x) { return x / 2 * (1 + std::tanh(kGeluSlope * (x + kGeluCube * x * x * x))); }

double geluGradient(double x) {
  const double t = std::tanh(kGeluSlope * (x + kGeluCube * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * kGeluSlope * (1 + 3 * kGeluCube * x * x);
}

/// Bytes of the matrix beside D that a function reads.
size_t auxBytes(const Operation &operation, const Matrix &d) {
  return ((d.columns - 1) * operation.auxLeading + d.rows) * d.elementBytes();
}

/// Bytes of the sums of a factor: for A as many as D has rows, for B as columns.
size_t sumsBytes(const Operation &operation, const Matrix &d) {
  return (operation.epilogue == CUBLASLT_EPILOGUE_BGRADA ? d.rows : d.columns) * d.elementBytes();
}

/// What a function makes of an element that was summed in f32.
double applied(uint32_t function, double sum, double aux) {
  switch (function) {
  case CUBLASLT_EPILOGUE_RELU:
    return std::max(sum, 0.0);
  case CUBLASLT_EPILOGUE_GELU:
    return gelu(sum);
  case CUBLASLT_EPILOGUE_DGELU:
    return sum * geluGradient(aux);
  default:
    return sum;
  }
}

constexpr int kAnything = 0xFF; // NaN in every type

/// Before and after: an operand inside it loses its values.
void overwriteScratch(const Work &work) {
  if (work.scratchBytes > 0)
    std::memset(place(work.scratchAt, work.scratchBytes, "scratch"), kAnything, work.scratchBytes);
}

/// The elements' places, ascending. What lies between columns is another's.
std::vector<const char *> elementsOf(const Matrix &matrix, const void *base) {
  std::vector<const char *> places;
  for (int64_t item = 0; item < matrix.count; ++item)
    for (int64_t column = 0; column < static_cast<int64_t>(matrix.columns); ++column)
      for (int64_t row = 0; row < static_cast<int64_t>(matrix.rows); ++row)
        places.push_back(static_cast<const char *>(base) +
                         (item * matrix.step + column * matrix.leading + row) *
                             static_cast<int64_t>(matrix.elementBytes()));
  std::ranges::sort(places);
  return places;
}

/// True where an element of D, which is written, lies on one of `matrix`, which is still read then.
bool overlap(const Matrix &d, const void *written, const Matrix &matrix, const void *read) {
  const auto *to = static_cast<const char *>(written), *from = static_cast<const char *>(read);
  if (to >= from + matrix.bytes() || from >= to + d.bytes())
    return false;
  const std::vector<const char *> places = elementsOf(matrix, read);
  const auto ends = static_cast<std::ptrdiff_t>(matrix.elementBytes());
  return std::ranges::any_of(elementsOf(d, written), [&](const char *at) {
    auto next = std::ranges::upper_bound(places, at - ends);
    return next != places.end() && *next < at + static_cast<std::ptrdiff_t>(d.elementBytes());
  });
}

void multiply(const Work &work) {
  const void *a = place(work.aAt, work.a.bytes(), "A"), *b = place(work.bAt, work.b.bytes(), "B");
  void *d = place(work.dAt, work.d.bytes(), "D");
  // C has the description of D; with beta 0 the library does not read it.
  const void *c = work.beta == 0 ? d : place(work.cAt, work.d.bytes(), "C");
  const bool ta = work.operation.transposeA == CUBLAS_OP_T,
             tb = work.operation.transposeB == CUBLAS_OP_T;
  const auto inner = static_cast<int64_t>(ta ? work.a.rows : work.a.columns);
  const void *bias = nullptr;
  const auto biasType = static_cast<cudaDataType>(work.operation.biasType);
  const stow::DType aType = elementType(work.a.type), bType = elementType(work.b.type);
  const uint32_t function = work.operation.function();
  const void *aux =
      function == CUBLASLT_EPILOGUE_DGELU
          ? place(work.operation.aux, auxBytes(work.operation, work.d), "the epilogue's matrix")
          : nullptr;
  const stow::DType dType = elementType(work.d.type);
  if (work.operation.hasBias())
    bias = place(work.operation.bias, work.d.rows * (biasType == CUDA_R_32F ? 4 : 2), "the bias");
  const auto rows = static_cast<int64_t>(work.d.rows);
  // The library writes D while it still reads A and B: what they share loses its values.
  if (overlap(work.d, d, work.a, a) || overlap(work.d, d, work.b, b))
    for (const char *at : elementsOf(work.d, d))
      std::memset(const_cast<char *>(at), kAnything, work.d.elementBytes());
  // Sums of a column side by side, each in the order of the contracted elements.
  std::vector<double> wide(static_cast<size_t>(inner * rows)), sums(static_cast<size_t>(rows));
  for (int32_t item = 0; item < work.d.count; ++item) {
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t row = 0; row < rows; ++row)
        wide[static_cast<size_t>(k * rows + row)] =
            load(a, aType,
                 item * work.a.step + (ta ? row * work.a.leading + k : k * work.a.leading + row));
    for (int64_t column = 0; column < static_cast<int64_t>(work.d.columns); ++column) {
      std::ranges::fill(sums, 0);
      for (int64_t k = 0; k < inner; ++k) {
        const double factor = load(
            b, bType,
            item * work.b.step + (tb ? k * work.b.leading + column : column * work.b.leading + k));
        const double *from = &wide[static_cast<size_t>(k * rows)];
        double *to = sums.data();
        for (int64_t row = 0; row < rows; ++row)
          to[row] += from[row] * factor;
      }
      for (int64_t row = 0; row < rows; ++row) {
        double sum = sums[static_cast<size_t>(row)] * work.alpha;
        if (bias)
          sum += load(bias, elementType(biasType), row);
        const auto at = static_cast<int64_t>(item * work.d.step + column * work.d.leading + row);
        if (work.beta != 0) // from f32 sums, in f32
          sum = static_cast<float>(sum) + work.beta * load(c, dType, at);
        const double other = aux ? load(aux, dType, column * work.operation.auxLeading + row) : 0;
        store(d, dType, at, applied(function, sum, other));
      }
    }
  }
}

/// The sums of A's or B's elements over the contracted extent, in D's type. They add to nothing.
void sumFactor(const Work &work) {
  const bool isOfA = work.operation.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  const Matrix &matrix = isOfA ? work.a : work.b;
  const void *factor = place(isOfA ? work.aAt : work.bAt, matrix.bytes(), isOfA ? "A" : "B");
  const int32_t transpose = isOfA ? work.operation.transposeA : work.operation.transposeB;
  // D's rows are those of A, its columns those of B.
  const bool alongRows = isOfA == (transpose != CUBLAS_OP_T);
  const auto rows = static_cast<int64_t>(matrix.rows),
             columns = static_cast<int64_t>(matrix.columns);
  const int64_t count = alongRows ? rows : columns, inner = alongRows ? columns : rows;
  void *sums = place(work.operation.bias, sumsBytes(work.operation, work.d), "the sums");
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k)
      sum += load(factor, elementType(matrix.type),
                  alongRows ? k * matrix.leading + i : i * matrix.leading + k);
    store(sums, elementType(work.d.type), i, sum);
  }
}

void run(void *data) {
  const Work &work = *static_cast<const Work *>(data);
  overwriteScratch(work);
  if (work.operation.hasSums())
    sumFactor(work);
  multiply(work);
  overwriteScratch(work);
  if (auto *pass = driverFunction<decltype(&standinPass)>("standinPass"))
    pass(1e-6 * microseconds().at(work.algorithm));
}

/// True when the library takes the epilogue with a result like `d`, by cublasLt.h: a bias has D's type; a
/// GELU input's leading dimension is a multiple of 8 and no less than D's rows, and it has a place. Both
/// begin at multiples of 16 bytes, and so do sums of a factor, of one product, which have D's type, too.
bool fitsEpilogue(const Operation &operation, const Matrix &d) {
  if ((operation.hasBias() || operation.hasSums()) &&
      (operation.bias == 0 || operation.bias % 16 != 0 || operation.biasType != d.type))
    return false;
  switch (operation.function()) {
  case 0: // a bias alone
    return operation.hasBias();
  case CUBLASLT_EPILOGUE_DEFAULT:
    return !operation.hasBias();
  case CUBLASLT_EPILOGUE_RELU:
  case CUBLASLT_EPILOGUE_GELU:
    return true;
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    return d.count == 1;
  case CUBLASLT_EPILOGUE_DGELU:
    return !operation.hasBias() && d.count == 1 && operation.aux != 0 && operation.aux % 16 == 0 &&
           operation.auxLeading % 8 == 0 && operation.auxLeading >= static_cast<int64_t>(d.rows);
  default:
    return false;
  }
}

/// True when the library takes these operands together. Types, and that factors in f32 have a scale in f32: table of cublasLtMatmul;
/// products of a batch are written beside each other, since which would be last is nowhere said.
bool fits(const Operation &operation, const Matrix &a, const Matrix &b, const Matrix &d) {
  const bool ta = operation.transposeA == CUBLAS_OP_T, tb = operation.transposeB == CUBLAS_OP_T;
  for (const Matrix *matrix : {&a, &b, &d})
    if (!matrix->isKnown() || matrix->order != CUBLASLT_ORDER_COL || matrix->rows < 1 ||
        matrix->columns < 1 || matrix->count < 1 ||
        matrix->leading < static_cast<int64_t>(matrix->rows) || matrix->count != d.count)
      return false;
  if (operation.scale != CUDA_R_32F || (!ta && operation.transposeA != CUBLAS_OP_N) ||
      (!tb && operation.transposeB != CUBLAS_OP_N))
    return false;
  if (d.count > 1 &&
      d.step < static_cast<int64_t>((d.columns - 1) * static_cast<uint64_t>(d.leading) + d.rows))
    return false;
  const bool sameTypes = a.type == b.type && (d.type == a.type || d.type == CUDA_R_32F);
  return sameTypes && fitsEpilogue(operation, d) &&
         (operation.compute == CUBLAS_COMPUTE_32F ||
          (operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F)) &&
         (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows);
}

/// Equal for products for which one algorithm serves: "the matmul problem" of cublasLtMatmulAlgoGetHeuristic.
uint64_t questionOf(const Operation &operation, const Matrix &a, const Matrix &b, const Matrix &d) {
  uint64_t question = 0xCBF29CE484222325; // FNV-1a, by words
  auto add = [&](uint64_t word) { question = (question ^ word) * 0x100000001B3; };
  add(operation.compute), add(operation.scale), add(operation.epilogue), add(operation.biasType);
  add(operation.transposeA), add(operation.transposeB), add(operation.auxLeading);
  for (const Matrix *matrix : {&a, &b, &d}) {
    add(matrix->type), add(matrix->rows), add(matrix->columns), add(matrix->leading);
    add(matrix->count), add(matrix->step);
  }
  return question;
}

/// True for an epilogue that STANDIN_CUBLASLT_WITHOUT names by its number in cublasLtEpilogue_t, in a list with commas.
bool isWithout(uint32_t epilogue) {
  const char *text = std::getenv("STANDIN_CUBLASLT_WITHOUT");
  const std::string list = text ? "," + std::string(text) + "," : "";
  return list.find("," + std::to_string(epilogue) + ",") != std::string::npos;
}

/// True where D would be written over the epilogue's matrix: nothing says that it may be.
bool overlapsAux(const Operation &operation, const Matrix &matrix, const void *d) {
  const auto at = reinterpret_cast<uint64_t>(d);
  return operation.function() == CUBLASLT_EPILOGUE_DGELU &&
         at < operation.aux + auxBytes(operation, matrix) && operation.aux < at + matrix.bytes();
}

/// True where sums would be written over what the product reads or writes.
bool sumsOverlap(const Operation &operation, const Matrix &d, const Matrix &matrix,
                 const void *place) {
  const auto at = reinterpret_cast<uint64_t>(place);
  return operation.hasSums() && at < operation.bias + sumsBytes(operation, d) &&
         operation.bias < at + matrix.bytes();
}

} // namespace

extern "C" {

#define STANDIN __attribute__((visibility("default")))

STANDIN cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  CUcontext context = contextAtHand();
  if (!context)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new CUcontext(context));
  return CUBLAS_STATUS_SUCCESS;
}

STANDIN cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<CUcontext *>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

STANDIN size_t cublasLtGetVersion() { return 130100; }

STANDIN const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "success"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "invalid value"
                                                 : "failure";
}

STANDIN cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                                cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}

STANDIN cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete of(desc);
  return CUBLAS_STATUS_SUCCESS;
}

STANDIN cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                      cublasLtMatmulDescAttributes_t name,
                                                      const void *buffer, size_t bytes) {
  Operation &operation = *of(desc);
  switch (name) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return take(operation.transposeA, buffer, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return take(operation.transposeB, buffer, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return take(operation.epilogue, buffer, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return take(operation.bias, buffer, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return take(operation.biasType, buffer, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return take(operation.aux, buffer, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return take(operation.auxLeading, buffer, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

STANDIN cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *desc, cudaDataType type,
                                                  uint64_t rows, uint64_t columns,
                                                  int64_t leading) {
  *desc = reinterpret_cast<cublasLtMatrixLayout_t>(new Matrix{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}

STANDIN cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t desc) {
  delete of(desc);
  return CUBLAS_STATUS_SUCCESS;
}

STANDIN cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t desc,
                                                        cublasLtMatrixLayoutAttribute_t name,
                                                        const void *buffer, size_t bytes) {
  switch (name) {
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return take(of(desc)->count, buffer, bytes);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return take(of(desc)->step, buffer, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

STANDIN cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Limits);
  return CUBLAS_STATUS_SUCCESS;
}

STANDIN cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete of(preference);
  return CUBLAS_STATUS_SUCCESS;
}

STANDIN cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
    const void *buffer, size_t bytes) {
  switch (name) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return take(of(preference)->workspace, buffer, bytes);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return take(of(preference)->reductions, buffer, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return take(of(preference)->alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                buffer, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

STANDIN cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int requested, cublasLtMatmulHeuristicResult_t *results,
    int *count) {
  *count = 0;
  if (!isOfThisDevice(handle))
    return CUBLAS_STATUS_INVALID_VALUE;
  constexpr uint32_t inOtherTypes =
      CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  if ((of(preference)->reductions & inOtherTypes) != 0)
    return CUBLAS_STATUS_NOT_SUPPORTED; // sums are in f32: a promise of ours, no rule of the library
  if (isWithout(of(operation)->epilogue))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (uint32_t alignment : of(preference)->alignment)
    if (!std::has_single_bit(alignment))
      return CUBLAS_STATUS_INVALID_VALUE;
  if (requested < 1 || !fits(*of(operation), *of(a), *of(b), *of(d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (; *count < std::min<int>(requested, static_cast<int>(microseconds().size())); ++*count) {
    cublasLtMatmulHeuristicResult_t &result = results[*count] = {};
    // All scratch that it may have, so that a run with less is caught.
    result.workspaceSize = of(preference)->workspace;
    result.algo.data[0] = of(preference)->workspace;
    for (int side = 0; side < 4; ++side)
      result.algo.data[1 + side] = of(preference)->alignment[side];
    result.algo.data[kNumber] = static_cast<uint64_t>(*count);
    result.algo.data[kQuestion] = questionOf(*of(operation), *of(a), *of(b), *of(d));
  }
  return CUBLAS_STATUS_SUCCESS;
}

STANDIN cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
    cublasLtMatrixLayout_t aDesc, const void *b, cublasLtMatrixLayout_t bDesc, const void *beta,
    const void *c, cublasLtMatrixLayout_t cDesc, void *d, cublasLtMatrixLayout_t dDesc,
    const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspaceBytes, cudaStream_t stream) {
  auto isAligned = [&](const void *place, int side) {
    return reinterpret_cast<uint64_t>(place) % algo->data[1 + side] == 0;
  };
  if (!alpha || !beta || !a || !b || !d || (*static_cast<const float *>(beta) != 0 && !c) ||
      (workspaceBytes > 0 && !workspace))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!isOfThisDevice(handle) || !fits(*of(operation), *of(aDesc), *of(bDesc), *of(dDesc)) ||
      !algo ||
      algo->data[kQuestion] != questionOf(*of(operation), *of(aDesc), *of(bDesc), *of(dDesc)) ||
      !isAligned(a, 0) || !isAligned(b, 1) || !isAligned(c, 2) || !isAligned(d, 3) ||
      cDesc != dDesc || reinterpret_cast<uint64_t>(workspace) % kWorkspaceAlignment != 0 ||
      workspaceBytes < algo->data[0] || overlapsAux(*of(operation), *of(dDesc), d) ||
      sumsOverlap(*of(operation), *of(dDesc), *of(aDesc), a) ||
      sumsOverlap(*of(operation), *of(dDesc), *of(bDesc), b) ||
      sumsOverlap(*of(operation), *of(dDesc), *of(cDesc), c) ||
      sumsOverlap(*of(operation), *of(dDesc), *of(dDesc), d))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (microseconds().at(algo->data[kNumber]) < 0)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  // A captured product runs any number of times: its description lives as long as the process.
  static std::vector<std::unique_ptr<Work>> all;
  all.push_back(std::make_unique<Work>(Work{
      *of(operation), *of(aDesc), *of(bDesc), *of(dDesc), reinterpret_cast<uint64_t>(a),
      reinterpret_cast<uint64_t>(b), reinterpret_cast<uint64_t>(c), reinterpret_cast<uint64_t>(d),
      reinterpret_cast<uint64_t>(workspace), workspaceBytes, *static_cast<const float *>(alpha),
      *static_cast<const float *>(beta), algo->data[kNumber]}));
  static auto *launch = reinterpret_cast<decltype(&cuLaunchHostFunc)>(
      dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuLaunchHostFunc"));
  return launch(reinterpret_cast<CUstream>(stream), run, all.back().get()) == CUDA_SUCCESS
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
