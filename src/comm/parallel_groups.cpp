#include "comm/parallel_groups.h"

#include "base/error.h"

namespace viaduct {
namespace {

std::vector<int> values(const std::vector<GlobalRank>& ranks) {
  std::vector<int> list;
  for (const GlobalRank rank : ranks) list.push_back(rank.value);
  return list;
}

/// The run of `length` neighbours in `group` (ascending) that holds place `at`.
std::vector<int> run_of(const std::vector<int>& group, int at, int length) {
  const auto begin = group.begin() + at / length * length;
  return {begin, begin + length};
}

/// The members of `group` at the same place in every run of `length` as place `at`.
std::vector<int> across_runs(const std::vector<int>& group, int at, int length) {
  std::vector<int> members;
  for (size_t i = static_cast<size_t>(at % length); i < group.size();
       i += static_cast<size_t>(length)) {
    members.push_back(group[i]);
  }
  return members;
}

int place_of(const std::vector<int>& group, int rank) {
  int place = 0;
  while (group[static_cast<size_t>(place)] != rank) ++place;
  return place;
}

}  // namespace

ParallelGroups make_parallel_groups(const Mesh& mesh, std::shared_ptr<Communicator> world,
                                    const GroupSizes& sizes) {
  VIADUCT_CHECK(CommError, world->size() == mesh.ranks(), "mesh of {} ranks over a world of {}",
                mesh.ranks(), world->size());
  const int me = world->rank();
  const auto along = [&](const std::vector<Axis>& axes) { return values(mesh.group({me}, axes)); };
  const auto tp = along({Axis::tp}), cp = along({Axis::cp}), pp = along({Axis::pp});
  const auto dp_cp = along({Axis::dp, Axis::cp});
  const int tp_size = static_cast<int>(tp.size()), cp_size = static_cast<int>(cp.size()),
            data_size = static_cast<int>(dp_cp.size());
  const int inner =
      sizes.hierarchical_context_parallel.empty() ? 1 : sizes.hierarchical_context_parallel.front();
  VIADUCT_CHECK(CommError,
                tp_size % sizes.kv_replicas == 0 && cp_size % inner == 0 &&
                    data_size % sizes.optimizer_instances == 0,
                "groups: kv replicas {} of tp {}, inner context size {} of cp {}, {} optimizer "
                "instances of {} data ranks do not divide",
                sizes.kv_replicas, tp_size, inner, cp_size, sizes.optimizer_instances, data_size);
  const int shard_ranks = data_size / sizes.optimizer_instances;
  const int data_place = place_of(dp_cp, me);

  ParallelGroups groups;
  groups.world = world;
  const auto split = [&](std::vector<int> members, const char* name) {
    return world->split(members, name);
  };
  groups.dp_cp = split(dp_cp, "dp_cp");
  groups.dp_cp_inner = split(run_of(dp_cp, data_place, shard_ranks), "dp_cp.inner");
  groups.dp_cp_outer = split(across_runs(dp_cp, data_place, shard_ranks), "dp_cp.outer");
  groups.dp = split(along({Axis::dp}), "dp");
  groups.tp = split(tp, "tp");
  groups.tp_kv = split(run_of(tp, place_of(tp, me), sizes.kv_replicas), "tp.kv");
  groups.cp = split(cp, "cp");
  groups.cp_inner = split(run_of(cp, place_of(cp, me), inner), "cp.inner");
  groups.cp_outer = split(across_runs(cp, place_of(cp, me), inner), "cp.outer");
  groups.pp = split(pp, "pp");
  const bool at_end = me == pp.front() || me == pp.back();
  std::vector<int> ends{me};
  if (at_end && pp.size() > 1) ends = {pp.front(), pp.back()};
  groups.embedding = split(ends, "embedding");
  // An instance is the same run of data ranks in every (tp, pp) plane.
  std::vector<int> instance;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const auto theirs = values(mesh.group({rank}, {Axis::dp, Axis::cp}));
    if (place_of(theirs, rank) / shard_ranks == data_place / shard_ranks) instance.push_back(rank);
  }
  groups.statistics = split(instance, "statistics");
  return groups;
}

ParallelGroups self_groups() {
  return make_parallel_groups(Mesh({1, 1, 1, 1, 1}), make_self_communicator("world"));
}

}  // namespace viaduct
