#pragma once
// Weights of which a rank has shards: those of a unit (a bucket) are whole while a layer uses one
// of them, and ahead of that as far as callers plan it.

#include <vector>

#include "sharding/weight_store.h"
#include "sharding/weight_units.h"

namespace viaduct {

class ShardedWeights final : public WeightStore {
 public:
  ShardedWeights(Device& device, const ParameterEntries& entries, const StoreSettings& settings,
                 OffloadedBlocks* blocks);

  // Gathers planned by callers that know which weights are used next. A unit is the bucket of a
  // parameter (ParameterStore::bucket_of). Requiring a weight of a unit that is in no plan waits
  // for its gather, and the last release frees it.

  /// Add a unit to a plan, see WeightUnits; `plan_ahead` adds nothing without overlap_param_gather.
  void plan_now(GatherPlan& plan, size_t unit) const { units_.plan_now(plan, unit); }
  bool plan_ahead(GatherPlan& plan, size_t unit) const;
  /// Starts the gathers of all units of the plan, and waits for those that are needed at once.
  void gather(const GatherPlan& plan);
  /// Frees every unit that is neither in use nor in the plan.
  void keep_gathered(const GatherPlan& plan);

  Tensor weight(const Parameter& parameter) const override;
  void require(const Parameter& parameter) override;
  void released(const Parameter& parameter) override;
  void begin_generation() override;
  void written() override;
  /// They stay gathered until `keep_gathered` or the next generation.
  void finish() override;
  /// The program gathers each unit for its use, and frees it, so it ends as it begins: with none.
  void begin_program() override { keep_gathered({}); }

 private:
  void drop(size_t unit);

  WeightUnits units_;
  int64_t ahead_elements_;     // of units that are gathered ahead, at most
  std::vector<bool> planned_;  // by unit
};

}  // namespace viaduct
