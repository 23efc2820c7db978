// The machines for tests of ops: the instruction sets of this cpu. tests/cuda_host has another
// definition for the same tests.

#include "support/op_testing.h"

namespace viaduct::test {

std::vector<CpuIsa> testable_isas() {
  std::vector<CpuIsa> isas;
  for (CpuIsa isa : kCpuIsas) {
    if (cpu_supports(isa)) isas.push_back(isa);
  }
  return isas;
}

bool rounds_attention_factors(CpuIsa isa, DType dtype) {
  return dtype == DType::bf16 && (isa == CpuIsa::avx512_bf16 || isa == CpuIsa::amx);
}

OpMachine::OpMachine(CpuIsa isa, int threads, std::initializer_list<AddFamily> families)
    : device_(make_cpu_device(threads)) {
  table_.traits.name = "cpu:" + std::string(cpu_isa_name(isa));
  table_.traits.vector_floats = isa <= CpuIsa::avx2 ? 8 : 16;
  for (AddFamily add : families) add(table_, isa);
}

}  // namespace viaduct::test
