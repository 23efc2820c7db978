#pragma once
// The ops that have kernels for GPUs, for machines of the op tests that run them
// (support/op_testing.h): on the emulator (op_machine.cpp) and on a GPU (tests/gpu).

#include <type_traits>

#include "ops/table.h"

namespace viaduct::test {

/// Whether an op of the list with the `same` bits as the cpu's has them for these arguments, too:
/// the cpu has a kernel, and the step is not one that only comes close.
template <class Args>
bool has_cpu_bits(const Args&) {
  return true;
}
inline bool has_cpu_bits(const ScoreRowsArgs& args) {
  return args.step == ScoreStep::dropout && dtype_bytes(args.x.dtype()) > 2;
}
inline bool has_cpu_bits(const ReduceRowsArgs& args) {
  return args.value != RowValue::sum;
}
inline bool has_cpu_bits(const MapRowsArgs& args) {
  return args.map != RowMap::soft_cap && args.map != RowMap::exponential;
}

/// For ops whose tensors all have the same kind.
template <class Args>
bool any_f64(const Args& args) {
  bool found = false;
  for_each_tensor(args, [&](const Tensor& tensor) {
    found = found || (tensor.defined() && tensor.dtype() == DType::f64);
  });
  return found;
}
template <class Args, auto kTensor>
bool is_f64(const Args& args) {
  return (args.*kTensor).dtype() == DType::f64;
}
inline bool is_f64_product(const GemmArgs& args) {
  return args.a.dtype() == DType::f64;
}

template <class Args, class... List>
inline constexpr bool kAmong = (std::is_same_v<Args, List> || ...);
/// Ops whose kernels on GPUs take and make FP64 numbers: sums, merged logits, states, and numbers
/// of any kind that they only move.
template <class Args>
inline constexpr bool kTakesF64 =
    kAmong<Args, CopyArgs, FillArgs, RandomNormalArgs, LseShareArgs, LseJoinArgs, LoadErrorArgs,
           MoveLoadBiasArgs, ExpandOperandArgs, LargestMagnitudeArgs, QuantizationErrorArgs,
           NoteAmaxArgs, ChooseAmaxArgs, ReproducibleSumArgs, ReproducibleSumsArgs, WidenSumArgs,
           NarrowSumArgs, SumValueArgs, GradientNormArgs, MuonMomentumArgs, NormalizeArgs,
           MuonUpdateArgs, AdafactorLimitsArgs, AdafactorSumsArgs, AdafactorMomentsArgs,
           AdafactorDirectionArgs, AdafactorUpdateArgs, ExpandStateArgs, StoreStateArgs>;

/// Whether GPUs have no kernel for these arguments of an op: then the cpu's runs.
template <class Args>
bool has_no_kernel(const Args& args) {
  return !kTakesF64<Args> && any_f64(args);
}
// Of ops that have FP64 numbers beside those whose format decides.
inline bool has_no_kernel(const MapRowsArgs& args) {
  return args.out.dtype() == DType::f64;
}
inline bool has_no_kernel(const CrossEntropyForwardArgs& args) {
  return args.logits.dtype() == DType::f64;
}
inline bool has_no_kernel(const CrossEntropyBackwardArgs& args) {
  return args.out.dtype() == DType::f64;
}
inline bool has_no_kernel(const RouteBackwardArgs& args) {
  return args.logits.dtype() == DType::f64;
}
inline bool has_no_kernel(const RouterLossArgs& args) {
  return args.logits.dtype() == DType::f64;
}
/// The cpu has no kernel for FP64 weights with FP32 masters either.
template <class List>
bool has_f64_runs(const List& args) {
  for (const auto& run : args.runs) {
    if (run.master.dtype() == DType::f64) return true;
    if (run.weight && run.weight.dtype() == DType::f64) return true;
  }
  return false;
}
inline bool has_no_kernel(const AdamWListArgs& args) {
  return has_f64_runs(args);
}
inline bool has_no_kernel(const MomentumListArgs& args) {
  return has_f64_runs(args);
}
/// Elements other than FP8 and NVFP4, and tiles for the cpu's products.
inline bool has_no_kernel(const ConvertOperandArgs& args) {
  const OperandForm& form = args.out.form();
  const bool kernels =
      form.element == DType::e4m3 || form.element == DType::e5m2 || form.element == DType::e2m1x2;
  return form.layout != kRowMajor || !kernels || args.matrix.dtype() == DType::f64;
}

/// The same where the machine says which products have kernels.
template <class Args, bool (*kNoProduct)(const GemmArgs&),
          bool (*kNoGrouped)(const GroupedGemmArgs&)>
bool is_for_cpu(const Args& args) {
  if constexpr (std::is_same_v<Args, GemmArgs>) {
    return kNoProduct(args);
  } else if constexpr (std::is_same_v<Args, GroupedGemmArgs>) {
    return kNoGrouped(args);
  } else {
    return has_no_kernel(args);
  }
}

/// Calls `Checked<entry, same bits, arguments, for the cpu>::put(table, kernels)` for every op that
/// has kernels.
template <template <auto, bool, class Args, bool (*)(const Args&)> class Checked,
          bool (*kNoProduct)(const GemmArgs&), bool (*kNoGrouped)(const GroupedGemmArgs&)>
void put_kernels(OpTable& table, const OpTable& kernels) {
#define VIADUCT_PUT_KERNEL(name, Args, gpu)                            \
  if constexpr (GpuResults::gpu != GpuResults::none)                   \
    Checked<&OpTable::name, GpuResults::gpu == GpuResults::same, Args, \
            is_for_cpu<Args, kNoProduct, kNoGrouped>>::put(table, kernels);
  VIADUCT_OPS(VIADUCT_PUT_KERNEL)
#undef VIADUCT_PUT_KERNEL
}

}  // namespace viaduct::test
