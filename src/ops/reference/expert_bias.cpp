#include "ops/reference/reference.h"
#include "ops/reference/rows.h"

namespace viaduct::reference {

void expert_bias(const ExpertBiasArgs& args) {
  const auto* offsets = args.offsets.data<int32_t>();
  for (int64_t e = 0; e < args.bias.dim(0); ++e) {
    for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
      for (int64_t i = 0; i < args.x.dim(1); ++i) row(args.x, r)[i] += row(args.bias, e)[i];
    }
  }
}

void expert_bias_backward(const ExpertBiasBackwardArgs& args) {
  const auto* offsets = args.offsets.data<int32_t>();
  for (int64_t e = 0; e < args.d_bias.dim(0); ++e) {
    for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
      for (int64_t i = 0; i < args.dy.dim(1); ++i) row(args.d_bias, e)[i] += row(args.dy, r)[i];
    }
  }
}

}  // namespace viaduct::reference
