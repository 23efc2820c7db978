// AdamW with masters or moments in stored formats: a thread has 8 elements, which it widens,
// updates and stores; the threads of a group find its new scale together.

#include "ops/cuda/kernels/adamw.cuh"
#include "ops/cuda/kernels/state_codes.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kElementsPerBlock = kThreads * kStateRun;

template <bool kWide>
__global__ void __launch_bounds__(kThreads) adamw_coded_kernel(CodedAdamWList args) {
  auto& factors = shared<AdamWFactors>();
  if (args.constants.scalars[args.constants.skip] != 0) return;  // all threads
  if (threadIdx.x == 0) factors = factors_of(args.constants);
  __syncthreads();
  const AdamWFactors f = factors;
  const CodedAdamWRun& run = args.run[run_of_block(args)];
  const int64_t at =
      (int64_t{blockIdx.x} - run.first_block) * kElementsPerBlock + threadIdx.x * kStateRun;
  const int64_t left = run.elements - at;
  const int count = static_cast<int>(left < 0 ? 0 : left < kStateRun ? left : kStateRun);
  const StatePlace master{run.master, run.master_scales, run.weight};
  const StatePlace first{run.first, run.first_scales, nullptr};
  const StatePlace second{run.second, run.second_scales, nullptr};
  float p[kStateRun], m[kStateRun], v[kStateRun];
  load_all<kWide>(args.master, master, at, count, p);
  load_all<kWide>(args.first, first, at, count, m);
  load_all<kWide>(args.second, second, at, count, v);
  for_state<kWide>(count, [&](int i, auto elements) {
    constexpr int n = decltype(elements)::value;
    float g[n];
    load(run.gradient, args.gradient, at + i, g);
#pragma unroll
    for (int j = 0; j < n; ++j) update(f, g[j], p[i + j], m[i + j], v[i + j]);
  });
  store_all<kWide>(args.master, master, at, count, false, p);
  store_all<kWide>(args.first, first, at, count, false, m);
  store_all<kWide>(args.second, second, at, count, true, v);
  if (run.weight == nullptr || args.master == StateFormat::remainder) return;
  // The weight is the stored master, rounded: the same that a checkpoint restores.
  if (is_scaled(args.master)) {
    __syncwarp();  // the group's scale is there
    load_all<kWide>(args.master, master, at, count, p);
  }
  for_state<kWide>(count, [&](int i, auto elements) {
    constexpr int n = decltype(elements)::value;
    float part[n];
#pragma unroll
    for (int j = 0; j < n; ++j) part[j] = p[i + j];
    store(run.weight, args.weight, at + i, part);
  });
}

bool is_wide_run(const CodedAdamWRun& run) {
  return is_wide(run.master) && is_wide(run.first) && is_wide(run.second) &&
         is_wide(run.gradient) && is_wide(run.weight);
}

}  // namespace

void adamw_coded(CodedAdamWList& args, Stream stream) {
  static_assert(sizeof(CodedAdamWList) <= 4096, "what all drivers take as parameters");
  bool wide = true;
  for (int r = 0; r < args.runs; ++r) wide = wide && is_wide_run(args.run[r]);
  launch("adamw_coded", wide ? adamw_coded_kernel<true> : adamw_coded_kernel<false>,
         Grid(number_blocks(args, kElementsPerBlock)), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(adamw_coded)

}  // namespace viaduct::cuda
