#include "comm/parallel_groups.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"
#include "comm/group_kinds.h"

namespace viaduct {
namespace {

std::vector<ParallelGroups::Group> document_groups(Communicator& ranks) {
  std::vector<ParallelGroups::Group> groups;
  for (int size = 1; size <= ranks.size(); size *= 2) {
    std::vector<int> members(static_cast<size_t>(size));
    std::iota(members.begin(), members.end(), ranks.rank() / size * size);
    groups.push_back(ranks.split(members, fmt::format("documents.{}", size)));
  }
  return groups;
}

}  // namespace

ParallelGroups make_parallel_groups(const Mesh& mesh, std::shared_ptr<Communicator> world) {
  VIADUCT_CHECK(CommError, world->size() == mesh.ranks(), "mesh of {} ranks over a world of {}",
                mesh.ranks(), world->size());
  const GlobalRank me{world->rank()};
  const auto split = [&](GroupKind kind) {
    std::vector<int> members;
    for (const GlobalRank rank : group_ranks(mesh, kind, me)) members.push_back(rank.value);
    return world->split(members, std::string(group_kind_name(kind)));
  };
  ParallelGroups groups;
  groups.world = world;
  // Gradients first: a switch that reduces may serve only the first group that is made.
  groups.dp_cp = split(GroupKind::dp_cp);
  groups.dp_cp_inner = split(GroupKind::dp_cp_inner);
  groups.dp_cp_outer = split(GroupKind::dp_cp_outer);
  groups.dp = split(GroupKind::dp);
  groups.tp = split(GroupKind::tp);
  groups.tp_kv = split(GroupKind::tp_kv);
  groups.cp = split(GroupKind::cp);
  groups.cp_inner = split(GroupKind::cp_inner);
  groups.cp_outer = split(GroupKind::cp_outer);
  if (mesh.parts().document_groups) groups.documents = document_groups(*groups.dp_cp);
  groups.pp = split(GroupKind::pp);
  groups.embedding = split(GroupKind::embedding);
  groups.statistics = split(GroupKind::statistics);
  return groups;
}

ParallelGroups make_parallel_groups(const Mesh& mesh, std::shared_ptr<Communicator> world,
                                    const GroupSizes& sizes) {
  return make_parallel_groups(mesh.with(sizes), std::move(world));
}

bool leads_data_place(const ParallelGroups& groups) {
  return groups.tp->rank() == 0 && groups.cp->rank() == 0 && groups.pp->rank() == 0;
}

ParallelGroups self_groups() {
  return make_parallel_groups(Mesh({1, 1, 1, 1, 1}), make_self_communicator("world"));
}

}  // namespace viaduct
