#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/cpu/binned_sum.h"
#include "ops/cpu/optimizer_runs.h"
#include "ops/cpu/state_runs.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const OptimizerKernels& kernels(const Choice& choice) {
  return kernels_of(choice, avx2::optimizer_kernels, avx512::optimizer_kernels,
                    avx512_bf16::optimizer_kernels);
}

const StateKernels& state_kernels(const Choice& choice) {
  return choice.variant == kAvx2Kernel ? avx2::state_kernels : avx512::state_kernels;
}

constexpr int64_t kSumTask = 32 * kSumBlock;
constexpr int64_t kAdamWTask = 65536;

int64_t tasks_of(int64_t elements, int64_t size) {
  return (elements + size - 1) / size;
}

/// A task of a launch over several runs of elements: elements [begin, end) of run `run`.
struct ListTask {
  size_t run;
  int64_t begin, end;
};

/// Runs of `elements(i)` elements for i < runs, cut into tasks of at most `size`.
template <class Elements>
std::vector<ListTask> list_tasks(size_t runs, int64_t size, Elements elements) {
  std::vector<ListTask> tasks;
  for (size_t run = 0; run < runs; ++run) {
    const int64_t count = elements(run);
    for (int64_t begin = 0; begin < count; begin += size)
      tasks.push_back({run, begin, std::min(count, begin + size)});
  }
  return tasks;
}

template <CpuIsa isa>
Choice choose_sum_of(DType dtype, int64_t elements, int64_t tasks, int64_t bytes) {
  VIADUCT_CHECK(DeviceError, dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16,
                "reproducible_sum: the cpu has kernels for f32, f64 and bf16, not for {}",
                dtype_name(dtype));
  Choice choice = vector_choice("reproducible_sum", isa, DType::f32);  // the same kernel takes f64
  add_flops(choice, DType::f64, 15.0 * static_cast<double>(elements));
  choice.cost.bytes_read = bytes + kReproducibleSumSize * 8;
  choice.cost.bytes_written = kReproducibleSumSize * 8;
  choice.workspace_bytes = tasks * kReproducibleSumSize * 8;
  return choice;
}

template <CpuIsa isa>
Choice choose_sum(const ReproducibleSumArgs& args, const Traits&) {
  const int64_t count = args.x.elements();
  return choose_sum_of<isa>(args.x.dtype(), count, tasks_of(count, kSumTask),
                            bytes_of(args.x) + bytes_of(args.weight));
}

template <CpuIsa isa>
Choice choose_sums(const ReproducibleSumsArgs& args, const Traits&) {
  int64_t elements = 0, tasks = 0, bytes = 0;
  for (const Tensor& x : args.x) {
    elements += x.elements();
    tasks += tasks_of(x.elements(), kSumTask);
    bytes += bytes_of(x);
  }
  return choose_sum_of<isa>(args.x.front().dtype(), elements, tasks, bytes);
}

BinnedSum sum_of_block(const Choice& choice, const SumRun& run, int64_t begin, int64_t end) {
  BinnedSum block;
  double largest = 0;
  block.finite = kernels(choice).largest(run, begin, end, &largest);
  if (block.finite && largest > 0) {
    block.top = top_bin(largest);
    int64_t bins[kBins];
    kernels(choice).pieces(run, begin, end, std::ldexp(1.0, -bin_exponent(block.top)), bins);
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
    state_kernels(choice).expand(narrow, begin, count, wide);
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
Choice scalar_choice(int64_t bytes_read, int64_t bytes_written) {
  Choice choice;
  choice.kernel = "scalar";
  choice.cost.bytes_read = bytes_read;
  choice.cost.bytes_written = bytes_written;
  return choice;
}

Choice choose_widen(const WidenSumArgs& args, const Traits&) {
  return scalar_choice(bytes_of(args.state), bytes_of(args.wide));
}

void launch_widen(OpContext&, const Choice&, const WidenSumArgs& args, void*) {
  widen(args.state.data<double>(), args.wide.data<int64_t>());
}

Choice choose_narrow(const NarrowSumArgs& args, const Traits&) {
  return scalar_choice(bytes_of(args.wide), bytes_of(args.state));
}

void launch_narrow(OpContext&, const Choice&, const NarrowSumArgs& args, void*) {
  write_sum(narrow(args.wide.data<int64_t>()), args.state.data<double>());
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
Choice choose_adamw(const AdamWListArgs& args, const Traits&) {
  const AdamWArgs& first = args.runs.front();
  const bool f64 = first.master.dtype() == DType::f64;
  const bool narrows =
      first.weight && first.weight.dtype() == DType::bf16 && first.master.dtype() != DType::i16;
  Choice choice = narrowing_choice("adamw", isa, f64 ? DType::f64 : DType::f32, narrows);
  VIADUCT_CHECK(
      DeviceError,
      choice.variant == kReferenceKernel || !first.weight || first.weight.dtype() != DType::f64,
      "adamw: the cpu writes f32, bf16 and f16 weights from f32 masters, not f64");
  choice.cost.bytes_read = bytes_of(first.scalars);
  for (const AdamWArgs& run : args.runs) {
    add_flops(choice, f64 ? DType::f64 : DType::f32,
              14.0 * static_cast<double>(run.master.elements()));
    const int64_t state = bytes_of(run.master) + bytes_of(run.first) + bytes_of(run.second) +
                          bytes_of(run.master_scales) + bytes_of(run.first_scales) +
                          bytes_of(run.second_scales);
    choice.cost.bytes_read += state + bytes_of(run.gradient);
    if (run.master.dtype() == DType::i16) choice.cost.bytes_read += bytes_of(run.weight);
    choice.cost.bytes_written += state + bytes_of(run.weight);
  }
  return choice;
}

AdamWRun adamw_run(const AdamWArgs& args, const double* scalars) {
  const auto scalar = [&](StepScalar name) { return scalars[static_cast<int>(name)]; };
  const double lr = scalar(args.learning_rate);
  AdamWRun run;
  // Of what is not f32 the kernel gets the values of a block at a time.
  const auto floats = [](const Tensor& tensor) {
    return tensor.dtype() == DType::f32 ? tensor.data<float>() : nullptr;
  };
  run.master = floats(args.master);
  run.gradient = floats(args.gradient);
  run.first = floats(args.first);
  run.second = floats(args.second);
  if (args.weight && args.master.dtype() != DType::i16) run.weight = args.weight.raw();
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
  return run;
}

/// AdamW over a run that has parts in other formats than f32: block by block in FP32.
class CodedRun {
 public:
  CodedRun(const Choice& choice, const AdamWArgs& args, const AdamWRun& factors)
      : choice_(choice),
        factors_(factors),
        master_(state_run(args.master, args.master_scales, args.weight)),
        gradient_(state_run(args.gradient, {}, {})),
        first_(state_run(args.first, args.first_scales, {})),
        second_(state_run(args.second, args.second_scales, {})) {}

  void update(int64_t begin, int64_t end) const {
    float p[kBlock], g[kBlock], m[kBlock], v[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      AdamWRun block = factors_;
      block.master = open(master_, at, count, p);
      block.gradient = open(gradient_, at, count, g);
      block.first = open(first_, at, count, m);
      block.second = open(second_, at, count, v);
      if (block.weight != nullptr)
        block.weight = static_cast<char*>(block.weight) + at * dtype_bytes(block.weight_dtype);
      kernels(choice_).adamw(block, 0, count);
      close(master_, at, count, p);
      close(first_, at, count, m);
      close(second_, at, count, v);
    }
  }

 private:
  static constexpr int64_t kBlock = 1024;  // four of them stay in the first-level cache

  float* open(const StateRun& run, int64_t at, int64_t count, float* block) const {
    if (run.dtype == DType::f32) return static_cast<float*>(run.values) + at;
    state_kernels(choice_).expand(run, at, count, block);
    return block;
  }
  void close(const StateRun& run, int64_t at, int64_t count, const float* block) const {
    if (run.dtype == DType::f32) return;
    state_kernels(choice_).store(run, at, count, block, scale_of(run.dtype));
  }

  const Choice& choice_;
  AdamWRun factors_;
  StateRun master_, gradient_, first_, second_;
};

bool is_coded(const AdamWArgs& args) {
  for (const Tensor* tensor : {&args.master, &args.gradient, &args.first, &args.second})
    if (tensor->dtype() != DType::f32) return true;
  return false;
}

void launch_adamw(OpContext& context, const Choice& choice, const AdamWListArgs& args, void*) {
  if (choice.variant == kReferenceKernel) {
    for (const AdamWArgs& run : args.runs) reference::adamw(run);
    return;
  }
  const auto* scalars = args.runs.front().scalars.data<double>();
  if (scalars[static_cast<int>(StepScalar::skip)] != 0) return;
  const bool coded = is_coded(args.runs.front());  // the others are alike
  std::vector<AdamWRun> runs;
  for (const AdamWArgs& run : args.runs) runs.push_back(adamw_run(run, scalars));
  const auto tasks = list_tasks(runs.size(), kAdamWTask,
                                [&](size_t run) { return args.runs[run].master.elements(); });
  context.device.pool().run(static_cast<int64_t>(tasks.size()), [&](int64_t i, int) {
    const ListTask& task = tasks[static_cast<size_t>(i)];
    if (coded) {
      CodedRun(choice, args.runs[task.run], runs[task.run]).update(task.begin, task.end);
    } else {
      kernels(choice).adamw(runs[task.run], task.begin, task.end);
    }
  });
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.reproducible_sum = {choose_sum<isa>, launch_sum};
  table.reproducible_sums = {choose_sums<isa>, launch_sums};
  table.widen_sum = {choose_widen, launch_widen};
  table.narrow_sum = {choose_narrow, launch_narrow};
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
