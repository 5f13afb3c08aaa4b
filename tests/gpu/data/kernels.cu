// Kernels whose PTX nvcc made for the simulated GPU's tests: nvcc -arch=sm_80 -ptx kernels.cu -o kernels.ptx
#include <assert.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdio.h>

/// Softmax of a row per block: shuffles, static shared memory, __expf.
extern "C" __global__ void softmax(const float *x, float *y, int n) {
  __shared__ float parts[32];
  const float *row = x + blockIdx.x * n;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  float most = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    most = fmaxf(most, row[i]);
  for (int d = 16; d; d >>= 1)
    most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
  if (lane == 0)
    parts[warp] = most;
  __syncthreads();
  for (int i = 0; i < warps; ++i)
    most = fmaxf(most, parts[i]);
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    sum += __expf(row[i] - most);
  for (int d = 16; d; d >>= 1)
    sum += __shfl_down_sync(~0u, sum, d);
  if (lane == 0)
    parts[warp] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < warps; ++i)
    sum += parts[i];
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[blockIdx.x * n + i] = __expf(row[i] - most) / sum;
}

/// Functions of the library, with its slow paths and tables in memory.
extern "C" __global__ void functions(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  y[7 * i] = sinf(x[i]);
  y[7 * i + 1] = expf(x[i]);
  y[7 * i + 2] = logf(fabsf(x[i]));
  y[7 * i + 3] = powf(fabsf(x[i]), 1.7f);
  y[7 * i + 4] = tanhf(x[i]);
  y[7 * i + 5] = erff(x[i]);
  y[7 * i + 6] = static_cast<float>(sqrt(fabs(static_cast<double>(x[i]))) / 3.0);
}

/// Pairs of halves, an array of the thread's own, integers of 64 bits, a switch.
extern "C" __global__ void mixed(const __nv_bfloat162 *b, __half2 *h, long long *q, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float values[8];
  for (int k = 0; k < 8; ++k)
    values[k] = __bfloat162float(b[i].x) * k;
  float2 pair = __bfloat1622float2(__hmul2(b[i], b[i]));
  h[i] = __hfma2(__floats2half2_rn(pair.x, pair.y), __float2half2_rn(2), __float2half2_rn(values[i & 7]));
  long long number = 1000000007ll * (i + 1);
  switch (i % 5) {
  case 0:
    number /= i + 3;
    break;
  case 1:
    number %= 97 + i;
    break;
  case 2:
    number = __popcll(number) + __clzll(number);
    break;
  case 3:
    number = static_cast<long long>(static_cast<double>(number) * 0.5);
    break;
  default:
    number = -number >> 3;
  }
  q[i] = number;
}

__device__ unsigned counter;

/// Atomics, printing and an assertion.
extern "C" __global__ void reports(float *sums, int broken) {
  extern __shared__ float dynamic[];
  dynamic[threadIdx.x] = threadIdx.x * 0.5f;
  __syncthreads();
  atomicAdd(&sums[threadIdx.x & 1], dynamic[threadIdx.x ^ 1]);
  if (atomicInc(&counter, 1000) == 3)
    printf("thread %d of %s: %.2f\n", static_cast<int>(threadIdx.x), "reports", dynamic[threadIdx.x]);
  assert(static_cast<int>(threadIdx.x) != broken);
}
