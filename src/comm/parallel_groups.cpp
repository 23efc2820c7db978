#include "comm/parallel_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

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

/// The ranks that a rank exchanges messages of stages with: those of the stages beside its own;
/// and, where there are virtual stages, the last stage sends to the first that has several: it has
/// an embedding, and in front of it may be stages of an encoder.
std::vector<GlobalRank> stage_neighbours(const Mesh& mesh, GlobalRank rank) {
  const int stage = mesh.coordinate(rank, Axis::pp).value, last = mesh.size(Axis::pp) - 1;
  std::vector<int> firsts = mesh.parts().embedding_stages, beside{stage - 1, stage + 1};
  if (firsts.empty()) firsts = {0};
  if (std::ranges::count(firsts, stage) > 0) beside.push_back(last);
  if (stage == last) beside.insert(beside.end(), firsts.begin(), firsts.end());
  std::vector<GlobalRank> neighbours;
  for (const int other : beside) {
    if (other < 0 || other > last || other == stage) continue;
    for (const GlobalRank place : mesh.places_in_stage(rank, other))
      if (std::ranges::count(neighbours, place) == 0) neighbours.push_back(place);
  }
  return neighbours;
}

/// Those that a rank of the mesh opens below at most, one for each group of several ranks, each
/// direction of each flow to a neighbour, and each flow of rings.
int64_t most_connections(const Mesh& mesh, const std::vector<OwnConnection>& of_tp) {
  constexpr int64_t kFlows = 2, kDirections = 2;
  int64_t count = 0;
  const auto largest = [&](GroupKind kind) {
    size_t ranks = 0;
    for (const auto& group : all_groups(mesh, kind)) ranks = std::max(ranks, group.size());
    return static_cast<int64_t>(ranks);
  };
  for (const GroupKind kind : communicator_kinds(mesh)) {
    if (largest(kind) == 1) continue;
    ++count;
    const bool ring = kind == GroupKind::tp || kind == GroupKind::cp || kind == GroupKind::cp_outer;
    if (ring) count += kFlows;
  }
  size_t neighbours = 0;
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    neighbours = std::max(neighbours, stage_neighbours(mesh, {rank}).size());
  count += static_cast<int64_t>(neighbours) * kFlows * kDirections;
  if (mesh.parts().document_groups) {
    for (int64_t size = 2; size <= largest(GroupKind::dp_cp); size *= 2) count += 1 + kFlows;
  }
  if (mesh.size(Axis::tp) == 1) return count;
  for (const OwnConnection& own : of_tp)
    count += int64_t{own.collectives} + own.activations + own.gradients;
  return count;
}

void open_stage_channels(Communicator& pp, const Mesh& mesh, GlobalRank me) {
  const std::vector<GlobalRank> members = group_ranks(mesh, GroupKind::pp, me);
  std::vector<int> peers;
  for (const GlobalRank rank : stage_neighbours(mesh, me))
    peers.push_back(static_cast<int>(std::ranges::find(members, rank) - members.begin()));
  pp.open_channels(peers, false);
}

}  // namespace

ParallelGroups::ParallelGroups(const Mesh& mesh, Group world,
                               const std::vector<OwnConnection>& of_tp)
    : world_(std::move(world)) {
  VIADUCT_CHECK(CommError, world_->size() == mesh.ranks(), "mesh of {} ranks over a world of {}",
                mesh.ranks(), world_->size());
  const GlobalRank me{world_->rank()};
  world_->expect_connections([&] { return most_connections(mesh, of_tp); });
  for (const GroupKind kind : communicator_kinds(mesh)) {
    std::vector<int> members;
    for (const GlobalRank rank : group_ranks(mesh, kind, me)) members.push_back(rank.value);
    groups_[static_cast<size_t>(kind)] = world_->split(members, std::string(group_kind_name(kind)));
  }
  if (mesh.parts().document_groups) documents_ = document_groups(dp_cp());
  find_stages(mesh);
  open_stage_channels(pp(), mesh, me);
  open_channels();
  if (!of_tp.empty() && tp().size() > 1) tp().open_connections(of_tp);
}

void ParallelGroups::find_stages(const Mesh& mesh) {
  const GlobalRank me{world_->rank()};
  const std::vector<GlobalRank> members = group_ranks(mesh, GroupKind::pp, me);
  const auto place = [&](GlobalRank rank) {
    return static_cast<int>(std::ranges::find(members, rank) - members.begin());
  };
  stages_ = mesh.size(Axis::pp), stage_ = mesh.coordinate(me, Axis::pp).value;
  for (int stage = 0; stage < stages_; ++stage) {
    std::vector<int>& ranks = in_stage_.emplace_back();
    for (const GlobalRank rank : mesh.places_in_stage(me, stage)) ranks.push_back(place(rank));
    const auto first = std::ranges::find_if(
        members, [&](GlobalRank rank) { return mesh.coordinate(rank, Axis::pp).value == stage; });
    roots_.push_back(static_cast<int>(first - members.begin()));
  }
}

void ParallelGroups::open_channels() {
  // Rings of context ranks, and of products in chunks.
  std::vector<Communicator*> rings{&tp(), &cp(), &cp_outer()};
  for (const Group& group : documents_) rings.push_back(group.get());
  for (Communicator* ring : rings) ring->open_channels({}, true);
}

const ParallelGroups::Group& ParallelGroups::of(Grid grid, std::initializer_list<Axis> axes) const {
  return of(group_kind(grid, axes));
}

const ParallelGroups::Group& ParallelGroups::of(GroupKind kind) const {
  const Group& group = groups_[static_cast<size_t>(kind)];
  VIADUCT_CHECK(CommError, group != nullptr, "this run has no groups {}", group_kind_name(kind));
  return group;
}

bool leads_data_place(const ParallelGroups& groups) {
  return groups.tp().rank() == 0 && groups.cp().rank() == 0 && groups.pp().rank() == 0;
}

ParallelGroups self_groups() {
  return ParallelGroups(Mesh({1, 1, 1, 1, 1}), make_self_communicator("world"));
}

}  // namespace viaduct
