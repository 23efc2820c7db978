#include "support/instruction_set.h"

#include <cstdlib>

#include "base/error.h"

namespace viaduct::test {

CpuIsa instruction_set() {
  const char* name = std::getenv("VIADUCT_TEST_ISA");
  if (name == nullptr) return best_cpu_isa();
  for (const CpuIsa isa : kCpuIsas) {
    if (cpu_isa_name(isa) == name && cpu_supports(isa)) return isa;
  }
  fail<DeviceError>("VIADUCT_TEST_ISA={}: this machine has no such instruction set", name);
}

std::vector<std::string> instruction_set_override() {
  if (std::getenv("VIADUCT_TEST_ISA") == nullptr) return {};
  return {"dist.cpu_isa=" + std::string(cpu_isa_name(instruction_set()))};
}

}  // namespace viaduct::test
