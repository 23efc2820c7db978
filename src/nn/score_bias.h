#pragma once
// The bias of attention's scores by relative position (ops/relative_bias.h), of a stack of layers
// that share its table.

#include <memory>
#include <optional>

#include "nn/attention_method.h"
#include "nn/context.h"
#include "nn/parameter.h"

namespace viaduct {

struct RelativeBias {
  std::shared_ptr<const Parameter> table;  // [buckets, heads here]; null: none
  RelativeBuckets buckets;
};

/// The weight of a bias, held for a scope.
class AcquiredBias {
 public:
  /// `backward`: with the gradient of the table, which accumulates (+=), if it is trained.
  AcquiredBias(RankContext& context, const RelativeBias& bias, bool backward = false);

  /// Null without a bias.
  const ScoreBias* get() const { return weight_ ? &scores_ : nullptr; }
  /// Reports the contribution to the gradient, if there is one.
  void done();

 private:
  RankContext& context_;
  const Parameter* table_;
  std::optional<AcquiredWeight> weight_;
  ScoreBias scores_;
};

}  // namespace viaduct
