#include "comm/group_kinds.h"

#include <array>

namespace viaduct {
namespace {

struct KindRow {
  std::string_view name;
  Grid grid;
  std::vector<Axis> axes;
  bool ends = false;  // of the axis pp, first and last alone
};

const KindRow& row_of(GroupKind kind) {
  using enum Axis;
  constexpr Grid kDense = Grid::attention, kExpert = Grid::expert;
  static const std::array<KindRow, kGroupKinds> rows{{
      {"dp_cp", kDense, {cp, dp}},
      {"dp_cp.inner", kDense, {dp_inner}},
      {"dp_cp.outer", kDense, {dp_outer}},
      {"dp", kDense, {dp}},
      {"tp", kDense, {tp}},
      {"tp.kv", kDense, {tp_kv}},
      {"cp", kDense, {cp}},
      {"cp.inner", kDense, {cp_inner}},
      {"cp.outer", kDense, {cp_outer}},
      {"tp_cp", kDense, {tp, cp}},
      {"tp_dp_cp", kDense, {tp, cp, dp}},
      {"pp", kDense, {pp}},
      {"model", kDense, {tp, pp}},
      {"embedding", kDense, {pp}, true},
      {"position_embedding", kDense, {}},
      {"ep", kExpert, {ep}},
      {"expert_tp", kExpert, {tp}},
      {"expert_tp_ep", kExpert, {tp, ep}},
      {"expert_tp_ep_pp", kExpert, {tp, ep, pp}},
      {"expert_dp", kExpert, {dp}},
      {"expert_dp.inner", kExpert, {dp_inner}},
      {"expert_dp.outer", kExpert, {dp_outer}},
      {"statistics", kDense, {tp, dp_inner, pp}},
  }};
  return rows[static_cast<size_t>(kind)];
}

}  // namespace

std::string_view group_kind_name(GroupKind kind) {
  return row_of(kind).name;
}

std::vector<GlobalRank> group_ranks(const Mesh& mesh, GroupKind kind, GlobalRank rank) {
  const KindRow& row = row_of(kind);
  std::vector<GlobalRank> ranks = mesh.group(row.grid, rank, row.axes);
  if (!row.ends || ranks.size() == 1) return ranks;
  if (rank == ranks.front() || rank == ranks.back()) return {ranks.front(), ranks.back()};
  return {rank};
}

std::vector<std::vector<GlobalRank>> all_groups(const Mesh& mesh, GroupKind kind) {
  const KindRow& row = row_of(kind);
  std::vector<std::vector<GlobalRank>> groups;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (row.ends) {
      std::vector<GlobalRank> group = group_ranks(mesh, kind, {rank});
      if (group.front().value == rank) groups.push_back(std::move(group));
    } else if (mesh.leads(row.grid, {rank}, row.axes)) {
      groups.push_back(mesh.group(row.grid, {rank}, row.axes));
    }
  }
  return groups;
}

}  // namespace viaduct
