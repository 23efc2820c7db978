// Switches of norm kernels that the guides set and that have nothing to switch here.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kNowhere = KnobReach::nowhere;

constexpr KnobRow kPersistent[] = {
    {"persist_layer_norm", "bool", "true", "", "Persistent norm kernels.", "", "", kNowhere},
};

constexpr KnobRow kMemoryEfficient[] = {
    {"memory_efficient_layer_norm", "bool", "false", "",
     "Norms keep their output instead of their input.", "", "", kNowhere},
};

}  // namespace

std::vector<KnobTable> kernels() {
  return {
      {"model", "", "each norm has one kernel", kPersistent},
      {"model", "",
       "a setting of Apex's kernels; model.recompute_modules=[layernorm] saves the same memory, "
       "with the same bits",
       kMemoryEfficient}};
}

}  // namespace viaduct::catalogue_tables
