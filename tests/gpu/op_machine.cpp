// The machine of the op tests on a GPU, so that the tests of the cpu's ops apply to it unchanged.
// Each launch runs twice from the same bytes and with a poisoned workspace, and must write the same
// bytes; where an op promises the cpu's bits, the cpu's launch runs as well. FP64, which has no
// kernels, runs the cpu's reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "cuda_host/argument_bytes.h"
#include "cuda_host/checked_ops.h"
#include "gpu/device_arguments.h"
#include "gpu/gpu_machine.h"
#include "ops/cuda/product_layout.h"
#include "run/cuda_backend.h"
#include "support/op_testing.h"

namespace viaduct::test {
namespace {

std::unique_ptr<GpuMachine>& machine() {
  static std::unique_ptr<GpuMachine> made;
  return made;
}

/// Memory on the GPU that is NaN; at most some MiB at either end of it.
Tensor poisoned(Device& device, int64_t bytes) {
  if (bytes == 0) return {};
  const Tensor memory = device.allocate(DType::u8, {bytes}, MemoryTag::workspace);
  const int64_t part = std::min(bytes, int64_t{4} << 20);
  const Tensor nan = host_tensor(DType::u8, {part});
  std::memset(nan.raw(), 0xff, static_cast<size_t>(part));
  device.copy_from_host(nan, memory.slice(0, 0, part));
  device.copy_from_host(nan, memory.slice(0, bytes - part, part));
  return memory;
}

/// An entry of the table whose launches are checked. kOnCpu tells which arguments have no kernel.
template <auto kEntry, bool kCpuBits, class Args, bool (*kOnCpu)(const Args&)>
struct OnGpu {
  static inline OpEntry<Args> cpu;

  static Choice choose(const Args& args, const Traits& traits) {
    if (kOnCpu(args)) return cpu.choose(args, traits);
    const OpTable& ops = gpu_machine().ops;
    return (ops.*kEntry).choose(args, ops.traits);
  }

  static void launch(OpContext& context, const Choice& choice, const Args& args, void* workspace) {
    if (kOnCpu(args)) return cpu.launch(context, choice, args, workspace);
    const ArgumentBytes before(args);
    run(choice, args);
    const ArgumentBytes first(args);
    before.restore();
    run(choice, args);
    EXPECT_TRUE(ArgumentBytes(args) == first) << choice.kernel << ": other bits the second time";
    if (kCpuBits && has_cpu_bits(args)) {
      before.restore();
      const Choice other = cpu.choose(args, {.name = "cpu:portable"});
      const Tensor memory = host_tensor(DType::u8, {other.workspace_bytes});
      cpu.launch(context, other, args, memory.raw());
      EXPECT_TRUE(ArgumentBytes(args) == first) << choice.kernel << ": other bits than the cpu's";
    }
    first.restore();
  }

  static void run(const Choice& choice, const Args& args) {
    GpuMachine& gpu = gpu_machine();
    DeviceArguments<Args> there(*gpu.device, args);
    there.to_device();
    OpContext context{*gpu.device, gpu.ops};
    const Tensor workspace = poisoned(*gpu.device, choice.workspace_bytes);
    detail::begin_launch(context);
    (gpu.ops.*kEntry)
        .launch(context, choice, there.args(), workspace.defined() ? workspace.raw() : nullptr);
    there.to_host();
  }

  static void put(OpTable& table, const OpTable&) {
    if ((table.*kEntry).choose == nullptr) return;
    cpu = table.*kEntry;
    table.*kEntry = {choose, launch};
  }
};

template <class Args>
bool is_missing(const Args& args) {
  if (cuda::missing_products(args.quantization, gpu_machine().target).empty()) return false;
  gpu_machine().products_on_cpu = true;
  return true;
}
bool no_product(const GemmArgs& args) {
  return is_f64_product(args) || is_missing(args);
}
bool no_grouped(const GroupedGemmArgs& args) {
  return is_f64<GroupedGemmArgs, &GroupedGemmArgs::a>(args) || is_missing(args);
}

}  // namespace

GpuMachine& gpu_machine() {
  std::unique_ptr<GpuMachine>& made = machine();
  if (made != nullptr) return *made;
  const CudaBackend& backend = cuda_backend();
  backend.use_gpu(0);
  const CudaTarget target = backend.target();
  made = std::make_unique<GpuMachine>(
      GpuMachine{target, backend.ops(target), backend.make_device({}), false});
  return *made;
}

void release_gpu_machine() {
  machine().reset();
}

/// One machine: in the tests it has the name of the instruction set that it replaces.
std::vector<CpuIsa> testable_isas() {
  return {CpuIsa::portable};
}

bool rounds_attention_factors(CpuIsa, DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}

OpMachine::OpMachine(CpuIsa, int threads, std::initializer_list<AddFamily> families)
    : device_(make_cpu_device(threads)) {
  const OpTable& kernels = gpu_machine().ops;
  table_.traits.name = kernels.traits.name;
  for (AddFamily add : families) add(table_, CpuIsa::portable);
  table_.product_terms = kernels.product_terms;
  table_.reduced_rows = kernels.reduced_rows;
  table_.biased_attention = kernels.biased_attention;
  table_.narrow_score_factors = kernels.narrow_score_factors;
  table_.produced_forms = kernels.produced_forms;
  put_kernels<OnGpu, no_product, no_grouped>(table_, kernels);
}

}  // namespace viaduct::test
