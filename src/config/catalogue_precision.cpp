// Planned knobs of FP8 and FP4.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobRow kFp8[] = {
    {"fp4_param_gather", "bool", "false", "", "Weights are gathered in FP4.",
     "a recipe that supports it", "ddp.fp4_param_gather"},
};

}  // namespace

std::vector<KnobTable> precision() {
  return {{"mixed_precision", "", "FP8 and FP4", kFp8}};
}

}  // namespace viaduct::catalogue_tables
