#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/cpu/optimizer/list_tasks.h"
#include "ops/cpu/optimizer/optimizer_tasks.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kAdamWTask = 65536;

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
  choice.cost = cost_of(args);
  return choice;
}

AdamWRun adamw_run(const AdamWArgs& args, const double* scalars) {
  const auto scalar = [&](StepScalar name) { return scalars[static_cast<int>(name)]; };
  const double lr = scalar(args.learning_rate);
  AdamWRun run;
  // For formats other than f32 the kernel gets the values of one block at a time.
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
        second_(state_run(args.second, args.second_scales, {})) {
    second_.lifts_zeros = true;
    if (!args.weight || args.master.dtype() != DType::f16) return;
    // The weight is the stored master, rounded: the same that a checkpoint restores.
    weight_ = state_run(args.weight, {}, {});
    factors_.weight = nullptr;
  }

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
      optimizer_kernels_of(choice_).adamw(block, 0, count);
      close(master_, at, count, p);
      if (weight_.values != nullptr) {
        state_kernels_of(choice_).expand(master_, at, count, p);
        state_kernels_of(choice_).store(weight_, at, count, p, nullptr);
      }
      close(first_, at, count, m);
      close(second_, at, count, v);
    }
  }

 private:
  static constexpr int64_t kBlock = 1024;  // four of them stay in the first-level cache

  float* open(const StateRun& run, int64_t at, int64_t count, float* block) const {
    if (run.dtype == DType::f32) return static_cast<float*>(run.values) + at;
    state_kernels_of(choice_).expand(run, at, count, block);
    return block;
  }
  void close(const StateRun& run, int64_t at, int64_t count, const float* block) const {
    if (run.dtype == DType::f32) return;
    state_kernels_of(choice_).store(run, at, count, block, scale_of(run.dtype));
  }

  const Choice& choice_;
  AdamWRun factors_;
  StateRun master_, gradient_, first_, second_;
  StateRun weight_;  // beside scaled masters
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
      optimizer_kernels_of(choice).adamw(runs[task.run], task.begin, task.end);
    }
  });
}

}  // namespace

void add_adamw(OpTable& table, CpuIsa isa) {
  table.adamw = {of_isa(isa, choose_adamw<CpuIsa::portable>, choose_adamw<CpuIsa::avx2>,
                        choose_adamw<CpuIsa::avx512>, choose_adamw<CpuIsa::avx512_bf16>),
                 launch_adamw};
}

}  // namespace viaduct::cpu
