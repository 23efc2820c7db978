#include "cuda_host/gemm_targets.h"

#include <gtest/gtest.h>

#include "cublaslt_double.h"
#include "cuda_host/argument_bytes.h"
#include "ops/cuda/launch/cuda_launches.h"

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

void launch_grouped(OpContext& context, const Choice& choice, const GroupedGemmArgs& args,
                    void* workspace) {
  table_of(target_of(args.quantization)).grouped_gemm.launch(context, choice, args, workspace);
}

}  // namespace

OpEntry<GroupedGemmArgs> grouped_gemm_of_targets() {
  return {choose_grouped, launch_grouped};
}

OpEntry<GemmArgs> gemm_of_targets() {
  return {choose, launch};
}

}  // namespace viaduct::test
