#include "comm/group_names.h"

#include <algorithm>
#include <utility>

#include "comm/group_kinds.h"

namespace viaduct {
namespace {

/// The names that Megatron has for groups, where they are others.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"intra_dp_cp", "dp_cp.inner"},
    {"inter_dp_cp", "dp_cp.outer"},
    {"expt_dp", "expert_dp"},
    {"intra_expt_dp", "expert_dp.inner"},
    {"inter_expt_dp", "expert_dp.outer"},
    {"embd", "embedding"},
    {"tp_ep", "expert_tp_ep"}};

}  // namespace

std::vector<std::string> group_names() {
  std::vector<std::string> names;
  for (int kind = 0; kind < kGroupKinds; ++kind)
    names.emplace_back(group_kind_name(static_cast<GroupKind>(kind)));
  return names;
}

std::optional<std::string> group_of_name(std::string_view given) {
  for (const auto& [other, ours] : kOtherNames)
    if (given == other) return std::string(ours);
  const std::vector<std::string> names = group_names();
  const auto found = std::ranges::find(names, given);
  return found == names.end() ? std::nullopt : std::optional(*found);
}

}  // namespace viaduct
