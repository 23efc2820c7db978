#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/cpu/optimizer/binned_sum.h"
#include "ops/cpu/optimizer/list_tasks.h"
#include "ops/cpu/optimizer/optimizer_tasks.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kSumTask = 32 * kSumBlock;

int64_t tasks_of(int64_t elements, int64_t size) {
  return (elements + size - 1) / size;
}

template <CpuIsa isa, class Args>
Choice choose_sum_of(const Args& args, DType dtype, int64_t tasks) {
  VIADUCT_CHECK(DeviceError, dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16,
                "reproducible_sum: the cpu has kernels for f32, f64 and bf16, not for {}",
                dtype_name(dtype));
  Choice choice = vector_choice("reproducible_sum", isa, DType::f32);  // the same kernel takes f64
  choice.cost = cost_of(args);
  choice.workspace_bytes = tasks * kReproducibleSumSize * 8;
  return choice;
}

template <CpuIsa isa>
Choice choose_sum(const ReproducibleSumArgs& args, const Traits&) {
  return choose_sum_of<isa>(args, args.x.dtype(), tasks_of(args.x.elements(), kSumTask));
}

template <CpuIsa isa>
Choice choose_sums(const ReproducibleSumsArgs& args, const Traits&) {
  int64_t tasks = 0;
  for (const Tensor& x : args.x) tasks += tasks_of(x.elements(), kSumTask);
  return choose_sum_of<isa>(args, args.x.front().dtype(), tasks);
}

BinnedSum sum_of_block(const Choice& choice, const SumRun& run, int64_t begin, int64_t end) {
  BinnedSum block;
  double largest = 0;
  block.finite = optimizer_kernels_of(choice).largest(run, begin, end, &largest);
  if (block.finite && largest > 0) {
    block.top = top_bin(largest);
    int64_t bins[kBins];
    optimizer_kernels_of(choice).pieces(run, begin, end, std::ldexp(1.0, -bin_exponent(block.top)),
                                        bins);
    std::copy(bins, bins + kBins, block.bins);
  }
  return block;
}

BinnedSum sum_of(const Choice& choice, const SumRun& run, int64_t first, int64_t last) {
  BinnedSum sum;
  for (int64_t begin = first; begin < last; begin += kSumBlock) {
    const int64_t end = std::min(last, begin + kSumBlock);
    sum.add(sum_of_block(choice, run, begin, end));
  }
  return sum;
}

/// Of BF16 values: they are widened block by block.
BinnedSum sum_of_bf16(const Choice& choice, const Tensor& x, bool squared, int64_t first,
                      int64_t last) {
  const StateRun narrow{x.raw(), nullptr, nullptr, DType::bf16};
  float wide[kSumBlock];
  BinnedSum sum;
  for (int64_t begin = first; begin < last; begin += kSumBlock) {
    const int64_t count = std::min(last - begin, kSumBlock);
    state_kernels_of(choice).expand(narrow, begin, count, wide);
    sum.add(sum_of_block(choice, {wide, false, nullptr, squared}, 0, count));
  }
  return sum;
}

/// `sum(task)` of every task, into the state.
template <class Sum>
void launch_sum_of(OpContext& context, const std::vector<ListTask>& tasks, const Tensor& into,
                   void* workspace, Sum sum_of_task) {
  auto* states = static_cast<double*>(workspace);
  const auto count = static_cast<int64_t>(tasks.size());
  context.device.pool().run(count, [&](int64_t i, int) {
    write_sum(sum_of_task(tasks[static_cast<size_t>(i)]), states + i * kReproducibleSumSize);
  });
  auto* state = into.data<double>();
  BinnedSum sum = read_sum(state);
  for (int64_t i = 0; i < count; ++i) sum.add(read_sum(states + i * kReproducibleSumSize));
  write_sum(sum, state);
}

void launch_sum(OpContext& context, const Choice& choice, const ReproducibleSumArgs& args,
                void* workspace) {
  const SumRun run{args.x.raw(), args.x.dtype() == DType::f64,
                   args.weight ? args.weight.data<float>() : nullptr, args.squared};
  const auto tasks = list_tasks(1, kSumTask, [&](size_t) { return args.x.elements(); });
  launch_sum_of(context, tasks, args.state, workspace,
                [&](const ListTask& task) { return sum_of(choice, run, task.begin, task.end); });
}

void launch_sums(OpContext& context, const Choice& choice, const ReproducibleSumsArgs& args,
                 void* workspace) {
  std::vector<SumRun> runs;
  for (const Tensor& x : args.x)
    runs.push_back({x.raw(), x.dtype() == DType::f64, nullptr, args.squared});
  const auto tasks =
      list_tasks(runs.size(), kSumTask, [&](size_t run) { return args.x[run].elements(); });
  launch_sum_of(context, tasks, args.state, workspace, [&](const ListTask& task) {
    const Tensor& x = args.x[task.run];
    return x.dtype() == DType::bf16 ? sum_of_bf16(choice, x, args.squared, task.begin, task.end)
                                    : sum_of(choice, runs[task.run], task.begin, task.end);
  });
}

/// A kernel over a handful of scalars.
template <class Args>
Choice choose_scalars(const Args& args, const Traits&) {
  Choice choice;
  choice.kernel = "scalar";
  choice.cost = cost_of(args);
  return choice;
}

void launch_widen(OpContext&, const Choice&, const WidenSumArgs& args, void*) {
  widen(args.state.data<double>(), args.wide.data<int64_t>());
}

void launch_narrow(OpContext&, const Choice&, const NarrowSumArgs& args, void*) {
  write_sum(narrow(args.wide.data<int64_t>()), args.state.data<double>());
}

void launch_value(OpContext&, const Choice&, const SumValueArgs& args, void*) {
  args.out.data<double>()[0] = value_of(read_sum(args.state.data<double>()));
}

void launch_gradient_norm(OpContext&, const Choice&, const GradientNormArgs& args, void*) {
  auto* scalars = args.scalars.data<double>();
  const auto slot = [&](StepScalar name) -> double& { return scalars[static_cast<int>(name)]; };
  const double factor = slot(StepScalar::gradient_factor), limit = slot(StepScalar::clip_norm);
  const double norm = factor * std::sqrt(value_of(read_sum(args.state.data<double>())));
  slot(StepScalar::gradient_norm) = norm;
  const double clip = limit / (norm + 1e-6);
  slot(StepScalar::clip_factor) = limit > 0 && clip < 1 ? factor * clip : factor;
  slot(StepScalar::skip) = args.skip_not_finite && !std::isfinite(norm) ? 1 : 0;
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.reproducible_sum = {choose_sum<isa>, launch_sum};
  table.reproducible_sums = {choose_sums<isa>, launch_sums};
  table.widen_sum = {choose_scalars, launch_widen};
  table.narrow_sum = {choose_scalars, launch_narrow};
  table.sum_value = {choose_scalars, launch_value};
  table.gradient_norm = {choose_scalars, launch_gradient_norm};
}

}  // namespace

void add_optimizer(OpTable& table, CpuIsa isa) {
  add_adamw(table, isa);
  of_isa(isa, fill<CpuIsa::portable>, fill<CpuIsa::avx2>, fill<CpuIsa::avx512>,
         fill<CpuIsa::avx512_bf16>)(table);
}

}  // namespace viaduct::cpu
