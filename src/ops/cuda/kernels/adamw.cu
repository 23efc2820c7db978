// AdamW: one launch for a list of runs. A block finds the run that it belongs to, makes the step's
// factors from the scalars in device memory, and updates its elements.

#include "ops/cuda/kernels/adamw.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kElementsPerBlock = kThreads * 16;

template <int kRun>
__global__ void __launch_bounds__(kThreads) adamw_kernel(AdamWList args) {
  auto& factors = shared<AdamWFactors>();
  if (args.constants.scalars[args.constants.skip] != 0) return;  // all threads
  if (threadIdx.x == 0) factors = factors_of(args.constants);
  __syncthreads();
  const AdamWFactors f = factors;
  const AdamWRun& run = args.run[run_of_block(args)];
  const int64_t begin = (int64_t{blockIdx.x} - run.first_block) * kElementsPerBlock;
  const int64_t left = run.elements - begin;
  const int64_t count = left < kElementsPerBlock ? left : kElementsPerBlock;
  for_row<kRun>(static_cast<int>(threadIdx.x), kThreads, count, [&](int64_t at, auto elements) {
    constexpr int n = decltype(elements)::value;
    const int64_t i = begin + at;
    float p[n], m[n], v[n], g[n];
    load_run(run.master + i, p);
    load_run(run.first + i, m);
    load_run(run.second + i, v);
    load(run.gradient, i, g);
#pragma unroll
    for (int j = 0; j < n; ++j) update(f, g[j], p[j], m[j], v[j]);
    store_run(run.master + i, p);
    store_run(run.first + i, m);
    store_run(run.second + i, v);
    if (run.weight.data != nullptr) store(run.weight.data, run.weight.format, i, p);
  });
}

bool is_wide_run(const AdamWRun& run) {
  return is_wide(run.master) && is_wide(run.first) && is_wide(run.second) &&
         is_wide(run.gradient) && is_wide(run.weight);
}

}  // namespace

void adamw(AdamWList& args, Stream stream) {
  static_assert(sizeof(AdamWList) <= 4096, "what all drivers take as parameters");
  bool wide = true;
  for (int r = 0; r < args.runs; ++r) wide = wide && is_wide_run(args.run[r]);
  launch("adamw", wide ? adamw_kernel<8> : adamw_kernel<1>,
         Grid(number_blocks(args, kElementsPerBlock)), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(adamw)

}  // namespace viaduct::cuda
