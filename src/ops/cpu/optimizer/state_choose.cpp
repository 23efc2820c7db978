#include <algorithm>

#include "base/error.h"
#include "ops/cpu/optimizer/adafactor_kernels.h"
#include "ops/cpu/optimizer/optimizer_tasks.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"
#include "tensor/state_formats.h"

namespace viaduct::cpu {
namespace {

template <CpuIsa isa, class Args>
Choice choose_conversion(std::string_view op, const Args& args) {
  const DType dtype = args.values.dtype();
  VIADUCT_CHECK(DeviceError, dtype != DType::f32 && dtype != DType::f64,
                "{}: the cpu has kernels for bf16, f16, e4m3 and i16, not for {}", op,
                dtype_name(dtype));
  Choice choice = vector_choice(op, isa, DType::f32);
  choice.cost = cost_of(args);
  return choice;
}

template <CpuIsa isa>
Choice choose_expand(const ExpandStateArgs& args, const Traits&) {
  return choose_conversion<isa>("expand_state", args);
}

void launch_expand(OpContext& context, const Choice& choice, const ExpandStateArgs& args, void*) {
  const StateRun run = state_run(args.values, args.scales, args.weights);
  auto* out = args.out.data<float>();
  for_tasks(context, args.out.elements(), [&](int64_t begin, int64_t end) {
    state_kernels_of(choice).expand(run, begin, end - begin, out + begin);
  });
}

template <CpuIsa isa>
Choice choose_store(const StoreStateArgs& args, const Traits&) {
  return choose_conversion<isa>("store_state", args);
}

void launch_store(OpContext& context, const Choice& choice, const StoreStateArgs& args, void*) {
  const StateRun run = state_run(args.values, args.scales, args.weights);
  for_tasks(context, args.values.elements(), [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 1024;
    const float zeros[kBlock] = {};
    const float* in = args.in ? args.in.data<float>() : nullptr;
    for (int64_t at = begin; at < end; at += kBlock) {
      state_kernels_of(choice).store(run, at, std::min(kBlock, end - at), in ? in + at : zeros,
                                     scale_of(run.dtype));
    }
  });
}

template <CpuIsa isa>
Choice choose_momentum(const MomentumListArgs& args, const Traits&) {
  const MomentumArgs& first = args.runs.front();
  Choice choice = vector_choice("momentum", isa, first.master.dtype());
  VIADUCT_CHECK(
      DeviceError,
      choice.variant == kReferenceKernel || !first.weight || first.weight.dtype() != DType::f64,
      "momentum: the cpu writes f32, bf16 and f16 weights from f32 masters, not f64");
  choice.cost = cost_of(args);
  return choice;
}

MomentumRun momentum_run(const MomentumArgs& args) {
  const auto* scalars = args.scalars.data<double>();
  const auto scalar = [&](StepScalar name) { return scalars[static_cast<int>(name)]; };
  MomentumRun run;
  run.master = args.master.data<float>();
  run.gradient = args.gradient.data<float>();
  run.state = args.state.data<float>();
  run.weight = args.weight ? args.weight.raw() : nullptr;
  run.weight_dtype = args.weight ? args.weight.dtype() : DType::f32;
  run.lion = args.rule == MomentumRule::lion;
  const double lr = scalar(args.learning_rate);
  const double decay = args.weight_decay * scalar(StepScalar::weight_decay_factor);
  run.clip = static_cast<float>(scalar(StepScalar::clip_factor));
  run.lr = static_cast<float>(lr);
  run.decay = static_cast<float>(run.lion ? lr * decay : decay);
  run.momentum = static_cast<float>(args.momentum);
  run.beta1 = static_cast<float>(args.beta1);
  run.one_minus_beta1 = static_cast<float>(1 - args.beta1);
  run.beta2 = static_cast<float>(args.beta2);
  run.one_minus_beta2 = static_cast<float>(1 - args.beta2);
  return run;
}

void launch_momentum(OpContext& context, const Choice& choice, const MomentumListArgs& args,
                     void*) {
  for (const MomentumArgs& run : args.runs) {
    if (choice.variant == kReferenceKernel) {
      reference::momentum(run);
      continue;
    }
    if (scalar_of(run.scalars, StepScalar::skip) != 0) return;
    const MomentumRun kernel_run = momentum_run(run);
    for_tasks(context, run.master.elements(), [&](int64_t begin, int64_t end) {
      state_kernels_of(choice).momentum(kernel_run, begin, end);
    });
  }
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.expand_state = {choose_expand<isa>, launch_expand};
  table.store_state = {choose_store<isa>, launch_store};
  table.momentum = {choose_momentum<isa>, launch_momentum};
}

}  // namespace

StateRun state_run(const Tensor& values, const Tensor& scales, const Tensor& weights) {
  return {values.raw(), scales ? scales.data<float>() : nullptr,
          weights && values.dtype() == DType::i16 ? static_cast<uint16_t*>(weights.raw()) : nullptr,
          values.dtype()};
}

float (*scale_of(DType dtype))(float largest) {
  if (dtype == DType::e4m3) return [](float largest) { return state_scale(largest, DType::e4m3); };
  if (dtype == DType::f16) return [](float largest) { return state_scale(largest, DType::f16); };
  return nullptr;
}

void add_optimizer_state(OpTable& table, CpuIsa isa) {
  add_adafactor(table, isa);
  of_isa(isa, fill<CpuIsa::portable>, fill<CpuIsa::avx2>, fill<CpuIsa::avx512>)(table);
}

}  // namespace viaduct::cpu
