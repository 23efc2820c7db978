// Planned switches of fusions and attention kernels. Fused is the default; the unfused path
// gives the same numbers.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kCuda = KnobReach::cuda_only;

constexpr KnobRow kGpu[] = {
    {"persist_layer_norm", "bool", "true", "", "Persistent norm kernels.", "", "", kCuda},
    {"memory_efficient_layer_norm", "bool", "false", "",
     "Norms keep their output instead of their input.", "", "", kCuda},
    {"deterministic_mode", "bool", "false", "", "Bitwise equal runs; on cpu that is always so.", "",
     "deterministic", kCuda},
};

}  // namespace

std::vector<KnobTable> kernels() {
  return {{"model", "", "a setting of the cuda backend", kGpu}};
}

}  // namespace viaduct::catalogue_tables
