#include "comm/domain_check.h"

#include <fmt/core.h>

#include <algorithm>

#include "config/nearest_valid.h"

namespace viaduct {
namespace {

std::vector<GroupKind> heavy_kinds(const Mesh& mesh) {
  std::vector<GroupKind> kinds{GroupKind::tp, GroupKind::cp, GroupKind::dp_cp_inner};
  if (mesh.size(Grid::expert, Axis::ep) > 1) {
    kinds.push_back(GroupKind::expert_tp_ep);
    kinds.push_back(GroupKind::expert_dp_inner);
  }
  return kinds;
}

/// Whether, with `used` devices of each domain, every group of at most `used` ranks lies in one
/// domain.
bool fits(const Mesh& mesh, int used) {
  const auto found = groups_across_domains(mesh, used);
  return std::all_of(found.begin(), found.end(), [&](const Straddling& s) {
    return s.straddling == 0 || s.ranks_per_group > used;
  });
}

/// Sizes with which no group that is small enough for a domain straddles two, or "".
std::string suggestion(const Mesh& mesh, int domain_size) {
  std::string text;
  // Fewer devices of each domain, but more than half of them.
  const int plane = mesh.size(Axis::tp) * mesh.size(Axis::cp);
  for (int used = domain_size - 1; 2 * used > domain_size; --used) {
    if (used % mesh.size(Axis::tp) != 0 || !fits(mesh, used)) continue;
    text = fmt::format("use {} of the {} devices of each domain", used, domain_size);
    break;
  }
  const int dp = mesh.size(Axis::dp);
  if (domain_size % plane == 0 && (domain_size / plane) % dp != 0 &&
      dp % (domain_size / plane) != 0) {
    text += fmt::format("{}a data-parallel size of {} (tp · cp · dp divides {})",
                        text.empty() ? "use " : ", or ", nearest_divisor(dp, domain_size / plane),
                        domain_size);
  }
  return text;
}

}  // namespace

std::vector<Straddling> groups_across_domains(const Mesh& mesh, int domain_size) {
  std::vector<Straddling> result;
  for (const GroupKind kind : heavy_kinds(mesh)) {
    Straddling found{.kind = kind};
    for (auto& group : all_groups(mesh, kind)) {
      ++found.groups;
      found.ranks_per_group = static_cast<int64_t>(group.size());
      if (group.front().value / domain_size == group.back().value / domain_size) continue;
      if (found.straddling++ == 0) found.example = std::move(group);
    }
    if (found.ranks_per_group > 1) result.push_back(std::move(found));
  }
  return result;
}

std::vector<std::string> domain_notes(const Mesh& mesh, int domain_size) {
  std::vector<std::string> notes;
  bool avoidable = false;
  for (const Straddling& s : groups_across_domains(mesh, domain_size)) {
    if (s.straddling == 0) continue;
    const int first = s.example.front().value, last = s.example.back().value;
    const bool larger = s.ranks_per_group > domain_size;
    avoidable = avoidable || !larger;
    notes.push_back(fmt::format(
        "dist.nvlink_domain_size: {} of {} groups {} straddle domains of {} ranks, for instance "
        "ranks {} to {} in domains {} to {}{}",
        s.straddling, s.groups, group_kind_name(s.kind), domain_size, first, last,
        first / domain_size, last / domain_size,
        larger ? fmt::format("; with {} ranks each they cannot fit", s.ranks_per_group) : ""));
  }
  if (!avoidable) return notes;
  if (const std::string better = suggestion(mesh, domain_size); !better.empty())
    notes.push_back("dist.nvlink_domain_size: " + better + ": then no group that fits straddles");
  return notes;
}

}  // namespace viaduct
