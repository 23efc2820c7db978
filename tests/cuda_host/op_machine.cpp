// The machine of the op tests with a GPU's kernels on the emulator, so that the tests of the cpu's
// ops apply to them unchanged. Each launch runs once for each of several seeds, from the same bytes
// and with a poisoned workspace, and must write the same bytes everywhere; where an op promises the
// cpu's bits, the cpu's launch runs as well. FP64, which has no kernels, runs the cpu's reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "cuda_host/argument_bytes.h"
#include "cuda_host/checked_ops.h"
#include "cuda_host/emulator.h"
#include "cuda_host/gemm_targets.h"
#include "hardware/cuda_target.h"
#include "ops/cuda/launch/cuda_launches.h"
#include "support/op_testing.h"

namespace viaduct::test {
namespace {

#ifdef VIADUCT_ADDRESS_SANITIZER
// A sanitizer checks accesses, which one random order has; the release build compares orders.
constexpr uint64_t kFirstSeed = 1;
constexpr std::array<uint64_t, 0> kMoreSeeds{};
#else
constexpr uint64_t kFirstSeed = 0;
constexpr std::array<uint64_t, 2> kMoreSeeds{1, 2};
#endif

/// At most some MiB at either end: the library's own workspace lies between them.
void poison(void* memory, size_t bytes) {
  if (bytes == 0) return;
  const size_t part = std::min(bytes, size_t{4} << 20);
  std::memset(memory, 0xff, part);
  std::memset(static_cast<char*>(memory) + bytes - part, 0xff, part);
}

/// An entry of the table whose launches are checked. kOnCpu tells which arguments have no kernel.
template <auto kEntry, bool kCpuBits, class Args, bool (*kOnCpu)(const Args&)>
struct Checked {
  static inline OpEntry<Args> cpu, cuda;

  static Choice choose(const Args& args, const Traits& traits) {
    return kOnCpu(args) ? cpu.choose(args, traits) : cuda.choose(args, traits);
  }

  static void launch(OpContext& context, const Choice& choice, const Args& args, void* workspace) {
    if (kOnCpu(args)) return cpu.launch(context, choice, args, workspace);
    const ArgumentBytes before(args);
    run(context, choice, args, workspace, kFirstSeed);
    const ArgumentBytes first(args);
    for (const uint64_t seed : kMoreSeeds) {
      before.restore();
      run(context, choice, args, workspace, seed);
      EXPECT_TRUE(ArgumentBytes(args) == first)
          << choice.kernel << ": other bits with seed " << seed;
    }
    if (kCpuBits && has_cpu_bits(args)) {
      before.restore();
      const Choice other = cpu.choose(args, {.name = "cpu:portable"});
      const Tensor memory = host_tensor(DType::u8, {other.workspace_bytes});
      cpu.launch(context, other, args, memory.raw());
      EXPECT_TRUE(ArgumentBytes(args) == first) << choice.kernel << ": other bits than the cpu's";
    }
    first.restore();
  }

  static void run(OpContext& context, const Choice& choice, const Args& args, void* workspace,
                  uint64_t seed) {
    poison(workspace, static_cast<size_t>(choice.workspace_bytes));
    cuda_host::emulator().set_seed(seed);
    cuda.launch(context, choice, args, workspace);
  }

  static void put(OpTable& table, const OpTable& kernels) {
    if ((table.*kEntry).choose == nullptr) return;
    cpu = table.*kEntry;
    cuda = kernels.*kEntry;
    table.*kEntry = {choose, launch};
  }
};

}  // namespace

/// One machine: in the tests it has the name of the instruction set that it replaces.
std::vector<CpuIsa> testable_isas() {
  return {CpuIsa::portable};
}

bool rounds_attention_factors(CpuIsa, DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}

OpMachine::OpMachine(CpuIsa, int threads, std::initializer_list<AddFamily> families)
    : device_(make_cpu_device(threads)) {
  table_.traits.name = "cuda:sm_90a";
  table_.traits.block_memory_bytes = cuda_block_memory_bytes(CudaTarget::sm_90a);
  for (AddFamily add : families) add(table_, CpuIsa::portable);
  OpTable kernels = cuda_ops_with_launches(CudaTarget::sm_90a);
  kernels.gemm = gemm_of_targets();
  kernels.grouped_gemm = grouped_gemm_of_targets();
  table_.product_terms = kernels.product_terms;
  table_.reduced_rows = kernels.reduced_rows;
  table_.biased_attention = kernels.biased_attention;
  table_.narrow_score_factors = kernels.narrow_score_factors;
  table_.produced_forms = kernels.produced_forms;
  put_kernels<Checked, is_f64_product, is_f64<GroupedGemmArgs, &GroupedGemmArgs::a>>(table_,
                                                                                     kernels);
}

}  // namespace viaduct::test
