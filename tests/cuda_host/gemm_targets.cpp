#include "cuda_host/gemm_targets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cublaslt_double.h"
#include "cuda_host/argument_bytes.h"
#include "ops/cuda/launch/cuda_launches.h"
#include "support/op_testing.h"

namespace viaduct::test {
namespace {

const OpTable& table_of(CudaTarget target) {
  static const OpTable hopper = cuda_ops_with_launches(CudaTarget::sm_90a);
  static const OpTable blackwell = cuda_ops_with_launches(CudaTarget::sm_100a);
  return target == CudaTarget::sm_90a ? hopper : blackwell;
}

CudaTarget target_of(const Quantization& quantization) {
  const Scaling scaling = quantization.scaling;
  return scaling == Scaling::mx || scaling == Scaling::nvfp4 ? CudaTarget::sm_100a
                                                             : CudaTarget::sm_90a;
}

Choice choose(const GemmArgs& args, const Traits&) {
  const OpTable& table = table_of(target_of(args.quantization));
  return table.gemm.choose(args, table.traits);
}

void launch(OpContext& context, const Choice& choice, const GemmArgs& args, void* workspace) {
  const auto run = [&](CudaTarget target, const Choice& of, void* memory) {
    cublaslt_double::set_capability(target == CudaTarget::sm_90a ? 90 : 100);
    table_of(target).gemm.launch(context, of, args, memory);
  };
  const CudaTarget first = target_of(args.quantization);
  if (first != CudaTarget::sm_90a || !args.quantization.any()) return run(first, choice, workspace);
  const ArgumentBytes before(args);
  const OpTable& other = table_of(CudaTarget::sm_100a);
  const Choice other_choice = other.gemm.choose(args, other.traits);
  const Tensor memory = host_tensor(DType::u8, {other_choice.workspace_bytes});
  run(CudaTarget::sm_100a, other_choice, memory.raw());
  const ArgumentBytes expected(args);
  before.restore();
  run(first, choice, workspace);
  EXPECT_TRUE(ArgumentBytes(args) == expected) << "sm_90a and sm_100a differ";
}

Choice choose_grouped(const GroupedGemmArgs& args, const Traits&) {
  const OpTable& table = table_of(target_of(args.quantization));
  return table.grouped_gemm.choose(args, table.traits);
}

/// Two roundings of the format, or sums in FP32 of another order.
void expect_near(const Tensor& actual, const Tensor& expected) {
  double largest = 0;
  const std::vector<double> x = values(actual), y = values(expected);
  for (const double value : y)
    largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    ASSERT_NEAR(x[i], y[i], std::abs(y[i]) / 128 + largest / 65536) << "sm_90a and sm_100a differ";
  }
}

void launch_grouped(OpContext& context, const Choice& choice, const GroupedGemmArgs& args,
                    void* workspace) {
  const CudaTarget first = target_of(args.quantization);
  const auto run = [&](CudaTarget target, const Choice& of, void* memory) {
    table_of(target).grouped_gemm.launch(context, of, args, memory);
  };
  if (first != CudaTarget::sm_90a) return run(first, choice, workspace);
  const OpTable& other = table_of(CudaTarget::sm_100a);
  const Choice other_choice = other.grouped_gemm.choose(args, other.traits);
  if (other_choice.kernel == choice.kernel) return run(first, choice, workspace);
  const ArgumentBytes before(args);
  const Tensor memory = host_tensor(DType::u8, {other_choice.workspace_bytes});
  run(CudaTarget::sm_100a, other_choice, memory.raw());
  const Tensor expected = to_f64(args.c);
  before.restore();
  run(first, choice, workspace);
  expect_near(args.c, expected);
}

}  // namespace

OpEntry<GroupedGemmArgs> grouped_gemm_of_targets() {
  return {choose_grouped, launch_grouped};
}

OpEntry<GemmArgs> gemm_of_targets() {
  return {choose, launch};
}

}  // namespace viaduct::test
