#include "nn/score_bias.h"

namespace viaduct {

AcquiredBias::AcquiredBias(RankContext& context, const RelativeBias& bias, bool backward)
    : context_(context), table_(bias.table.get()) {
  if (table_ == nullptr) return;
  weight_.emplace(context.weights, *table_, WeightUse::elementwise);
  scores_ = {bias.buckets, weight_->tensor(), {}};
  if (backward && table_->trained) scores_.d_table = context.gradients->gradient(*table_).tensor;
}

void AcquiredBias::done() {
  if (scores_.d_table) context_.gradients->done(*table_);
}

}  // namespace viaduct
