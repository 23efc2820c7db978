#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/cpu/binned_sum.h"
#include "ops/cpu/optimizer_runs.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const OptimizerKernels& kernels(const Choice& choice) {
  return kernels_of(choice, avx2::optimizer_kernels, avx512::optimizer_kernels,
                    avx512_bf16::optimizer_kernels);
}

constexpr int64_t kSumTask = 32 * kSumBlock;
constexpr int64_t kAdamWTask = 65536;

int64_t tasks_of(int64_t elements, int64_t size) {
  return (elements + size - 1) / size;
}

template <CpuIsa isa>
Choice choose_sum(const ReproducibleSumArgs& args, const Traits&) {
  VIADUCT_CHECK(DeviceError, args.x.dtype() == DType::f32 || args.x.dtype() == DType::f64,
                "reproducible_sum: the cpu has kernels for f32 and f64, not for {}",
                dtype_name(args.x.dtype()));
  Choice choice = vector_choice("reproducible_sum", isa, DType::f32);  // the same kernel takes f64
  add_flops(choice, DType::f64, 15.0 * static_cast<double>(args.x.elements()));
  choice.cost.bytes_read = bytes_of(args.x) + bytes_of(args.weight) + bytes_of(args.state);
  choice.cost.bytes_written = bytes_of(args.state);
  choice.workspace_bytes = tasks_of(args.x.elements(), kSumTask) * kReproducibleSumSize * 8;
  return choice;
}

void launch_sum(OpContext& context, const Choice& choice, const ReproducibleSumArgs& args,
                void* workspace) {
  const SumRun run{args.x.raw(), args.x.dtype() == DType::f64,
                   args.weight ? args.weight.data<float>() : nullptr, args.squared};
  const int64_t count = args.x.elements(), tasks = tasks_of(count, kSumTask);
  auto* states = static_cast<double*>(workspace);
  context.device.pool().run(tasks, [&](int64_t task, int) {
    BinnedSum sum;
    const int64_t last = std::min(count, (task + 1) * kSumTask);
    for (int64_t begin = task * kSumTask; begin < last; begin += kSumBlock) {
      const int64_t end = std::min(last, begin + kSumBlock);
      BinnedSum block;
      double largest = 0;
      block.finite = kernels(choice).largest(run, begin, end, &largest);
      if (block.finite && largest > 0) {
        block.top = top_bin(largest);
        int64_t bins[kBins];
        kernels(choice).pieces(run, begin, end, std::ldexp(1.0, -bin_exponent(block.top)), bins);
        std::copy(bins, bins + kBins, block.bins);
      }
      sum.add(block);
    }
    write_sum(sum, states + task * kReproducibleSumSize);
  });
  auto* state = args.state.data<double>();
  BinnedSum sum = read_sum(state);
  for (int64_t task = 0; task < tasks; ++task) {
    sum.add(read_sum(states + task * kReproducibleSumSize));
  }
  write_sum(sum, state);
}

/// A kernel over a handful of scalars.
Choice scalar_choice(int64_t bytes_read, int64_t bytes_written) {
  Choice choice;
  choice.kernel = "scalar";
  choice.cost.bytes_read = bytes_read;
  choice.cost.bytes_written = bytes_written;
  return choice;
}

Choice choose_merge(const MergeSumsArgs& args, const Traits&) {
  return scalar_choice(bytes_of(args.state) + bytes_of(args.other), bytes_of(args.state));
}

void launch_merge(OpContext&, const Choice&, const MergeSumsArgs& args, void*) {
  BinnedSum sum = read_sum(args.state.data<double>());
  sum.add(read_sum(args.other.data<double>()));
  write_sum(sum, args.state.data<double>());
}

Choice choose_value(const SumValueArgs& args, const Traits&) {
  return scalar_choice(bytes_of(args.state), bytes_of(args.out));
}

void launch_value(OpContext&, const Choice&, const SumValueArgs& args, void*) {
  args.out.data<double>()[0] = value_of(read_sum(args.state.data<double>()));
}

Choice choose_gradient_norm(const GradientNormArgs& args, const Traits&) {
  return scalar_choice(bytes_of(args.state) + bytes_of(args.scalars), 3 * 8);
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
Choice choose_adamw(const AdamWArgs& args, const Traits&) {
  Choice choice = narrowing_choice("adamw", isa, args.master.dtype(),
                                   args.weight && args.weight.dtype() == DType::bf16);
  VIADUCT_CHECK(
      DeviceError,
      choice.variant == kReferenceKernel || !args.weight || args.weight.dtype() != DType::f64,
      "adamw: the cpu writes f32, bf16 and f16 weights from f32 masters, not f64");
  add_flops(choice, args.master.dtype(), 14.0 * static_cast<double>(args.master.elements()));
  const int64_t state = bytes_of(args.master) + bytes_of(args.first) + bytes_of(args.second);
  choice.cost.bytes_read = state + bytes_of(args.gradient) + bytes_of(args.scalars);
  choice.cost.bytes_written = state + bytes_of(args.weight);
  return choice;
}

void launch_adamw(OpContext& context, const Choice& choice, const AdamWArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::adamw(args);
  const auto* scalars = args.scalars.data<double>();
  const auto scalar = [&](StepScalar name) { return scalars[static_cast<int>(name)]; };
  if (scalar(StepScalar::skip) != 0) return;
  const double lr = scalar(args.learning_rate);
  AdamWRun run;
  run.master = args.master.data<float>();
  run.gradient = args.gradient.data<float>();
  run.first = args.first.data<float>();
  run.second = args.second.data<float>();
  run.weight = args.weight ? args.weight.raw() : nullptr;
  run.weight_dtype = args.weight ? args.weight.dtype() : DType::f32;
  run.clip = static_cast<float>(scalar(StepScalar::clip_factor));
  run.decay = static_cast<float>(lr * args.weight_decay * scalar(StepScalar::weight_decay_factor));
  run.beta1 = static_cast<float>(args.beta1);
  run.one_minus_beta1 = static_cast<float>(1 - args.beta1);
  run.beta2 = static_cast<float>(args.beta2);
  run.one_minus_beta2 = static_cast<float>(1 - args.beta2);
  run.step =
      static_cast<float>(lr * args.learning_rate_multiplier / scalar(StepScalar::bias_correction1));
  run.correction2 = static_cast<float>(1 / scalar(StepScalar::bias_correction2));
  run.epsilon = static_cast<float>(args.epsilon);
  const int64_t count = args.master.elements();
  context.device.pool().run(tasks_of(count, kAdamWTask), [&](int64_t task, int) {
    kernels(choice).adamw(run, task * kAdamWTask, std::min(count, (task + 1) * kAdamWTask));
  });
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.reproducible_sum = {choose_sum<isa>, launch_sum};
  table.merge_sums = {choose_merge, launch_merge};
  table.sum_value = {choose_value, launch_value};
  table.gradient_norm = {choose_gradient_norm, launch_gradient_norm};
  table.adamw = {choose_adamw<isa>, launch_adamw};
}

}  // namespace

void add_optimizer(OpTable& table, CpuIsa isa) {
  if (isa == CpuIsa::avx2) return fill<CpuIsa::avx2>(table);
  isa == CpuIsa::avx512 ? fill<CpuIsa::avx512>(table) : fill<CpuIsa::avx512_bf16>(table);
}

}  // namespace viaduct::cpu
