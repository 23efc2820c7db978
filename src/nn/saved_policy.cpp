#include "nn/saved_policy.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace viaduct {

void SavedPolicy::set(int64_t block, std::string_view unit, UnitPolicy policy) {
  const auto is_in = [&](const auto& units) {
    return std::find(units.begin(), units.end(), unit) != units.end();
  };
  VIADUCT_CHECK(ShapeError,
                unit == unit::layer || is_in(kUnits) || is_in(kLatentUnits) || is_in(kExpertUnits),
                "policy of saved values: a block has no unit {}; it has {}, with latent attention "
                "{}, and with experts {}",
                unit, fmt::join(kUnits, ", "), fmt::join(kLatentUnits, ", "),
                fmt::join(kExpertUnits, ", "));
  if (policy != UnitPolicy::keep) {
    units_[block][std::string(unit)] = policy;
    return;
  }
  const auto units = units_.find(block);
  if (units == units_.end()) return;
  units->second.erase(std::string(unit));
  if (units->second.empty()) units_.erase(units);
}

void SavedPolicy::recompute_layers(const LayerGroup& group) {
  const bool parts = group.apart || group.experts;
  VIADUCT_CHECK(ShapeError, group.blocks > 0 && (group.blocks == 1 || !parts),
                "policy of saved values: a group of {} blocks{}", group.blocks,
                parts ? " whose segments are recomputed separately" : "");
  for (int64_t i = group.first_block; i < group.first_block + group.blocks; ++i) {
    VIADUCT_CHECK(ShapeError, group_of_.emplace(i, groups_.size()).second,
                  "policy of saved values: block {} is in two groups", i);
  }
  groups_.push_back(group);
}

UnitPolicy SavedPolicy::of(int64_t block, std::string_view unit) const {
  const auto units = units_.find(block);
  if (units == units_.end()) return UnitPolicy::keep;
  const auto found = units->second.find(unit);
  return found == units->second.end() ? UnitPolicy::keep : found->second;
}

bool SavedPolicy::offloads() const {
  return std::any_of(units_.begin(), units_.end(), [](const auto& units) {
    return std::any_of(units.second.begin(), units.second.end(),
                       [](const auto& unit) { return unit.second == UnitPolicy::offload; });
  });
}

const LayerGroup* SavedPolicy::group_of(int64_t block) const {
  const auto found = group_of_.find(block);
  return found == group_of_.end() ? nullptr : &groups_[found->second];
}

}  // namespace viaduct
