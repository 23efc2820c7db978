#include "comm/stream_priority.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "comm/group_names.h"

namespace viaduct {
namespace {

/// What tokens travel over between experts, besides the parts of `ep`, which is all of it in
/// Megatron.
constexpr std::string_view kTokens = "expert_tp_ep";
/// The runs of ranks that share a document (comm/parallel_groups.h), which are no kind of group.
constexpr std::string_view kDocuments = "documents";

/// Whether `stream` is one of the group's, or of a part of it: "pp" has "pp.to.1.activations".
bool is_of(std::string_view stream, std::string_view group) {
  return stream.starts_with(group) &&
         (stream.size() == group.size() || stream[group.size()] == '.');
}

bool is_of_any(std::string_view stream, const std::vector<std::string>& groups) {
  return std::ranges::any_of(groups, [&](const auto& group) { return is_of(stream, group); });
}

}  // namespace

std::function<bool(std::string_view)> stream_priority(const DistConfig& config,
                                                      Problems& problems) {
  if (!config.high_priority_stream_groups) return {};
  std::vector<std::string> urgent, all = group_names();
  for (const std::string& given : *config.high_priority_stream_groups) {
    if (const auto name = group_of_name(given)) {
      urgent.push_back(*name);
      if (*name == "ep") urgent.emplace_back(kTokens);
      continue;
    }
    const auto near = nearest_name(given, all);
    problems.add("dist.high_priority_stream_groups: there is no group \"{}\"{}", given,
                 near ? "; did you mean " + *near + "?" : "; expected a name like dp_cp, tp or ep");
  }
  all.emplace_back(kDocuments);
  return [urgent = std::move(urgent), all = std::move(all)](std::string_view stream) {
    return !is_of_any(stream, all) || is_of_any(stream, urgent);
  };
}

std::function<bool(std::string_view)> stream_priority(const DistConfig& config) {
  Problems problems;
  auto made = stream_priority(config, problems);
  problems.throw_if_any();
  return made;
}

}  // namespace viaduct
