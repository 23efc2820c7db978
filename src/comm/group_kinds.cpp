#include "comm/group_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/error.h"

namespace viaduct {
namespace {

// Which runs have communicators of a kind: all, those with experts, those whose tokens are sent by
// domain, those with some stages, those with a split mesh, or none yet (its groups are listed by
// the dry run).
enum class Use { always, experts, domains, stages, split, listed };

// Which stages of the axis pp are in a group; each of the others is alone. `own`: the stage of the
// rank, and of it the ranks that have the place of one beyond the split.
enum class Stages { all, embedding, encoder, decoder, own };

struct KindRow {
  std::string_view name;
  Grid grid;
  std::vector<Axis> axes;
  Use use;
  Stages stages = Stages::all;
};

const KindRow& row_of(GroupKind kind) {
  using enum Axis;
  using enum Use;
  constexpr Grid kDense = Grid::attention, kExpert = Grid::expert;
  static const std::array<KindRow, kGroupKinds> rows{{
      {"dp_cp", kDense, {cp, dp}, always},
      {"dp_cp.inner", kDense, {dp_inner}, always},
      {"dp_cp.outer", kDense, {dp_outer}, always},
      {"dp", kDense, {dp}, always},
      {"tp", kDense, {tp}, always},
      {"tp.kv", kDense, {tp_kv}, always},
      {"tp.split", kDense, {tp}, split, Stages::own},
      {"cp", kDense, {cp}, always},
      {"cp.inner", kDense, {cp_inner}, always},
      {"cp.outer", kDense, {cp_outer}, always},
      {"tp_cp", kDense, {tp, cp}, listed},
      {"tp_dp_cp", kDense, {tp, cp, dp}, listed},
      {"pp", kDense, {pp}, always},
      {"model", kDense, {tp, pp}, listed},
      {"embedding", kDense, {pp}, always, Stages::embedding},
      {"encoder_positions", kDense, {pp}, Use::stages, Stages::encoder},
      {"decoder_positions", kDense, {pp}, Use::stages, Stages::decoder},
      {"position_embedding", kDense, {}, listed},
      {"ep", kExpert, {ep}, experts},
      {"expert_tp", kExpert, {tp}, experts},
      {"expert_tp_ep", kExpert, {tp, ep}, experts},
      {"expert_tp_ep.inner", kExpert, {tp, ep_inner}, domains},
      {"ep.outer", kExpert, {ep_outer}, domains},
      {"expert_tp_ep_pp", kExpert, {tp, ep, pp}, listed},
      {"expert_dp", kExpert, {dp}, experts},
      {"expert_dp.inner", kExpert, {dp_inner}, experts},
      {"expert_dp.outer", kExpert, {dp_outer}, experts},
      {"statistics", kDense, {tp, dp_inner, pp}, always},
  }};
  return rows[static_cast<size_t>(kind)];
}

bool same_axes(std::vector<Axis> a, std::vector<Axis> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

std::string axis_names(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis axis : axes)
    text += fmt::format("{}{}", text.empty() ? "" : " · ", axis_name(axis));
  return text;
}

std::vector<int> stages_of(const Mesh& mesh, Stages stages) {
  const GroupSizes& parts = mesh.parts();
  if (stages == Stages::encoder) return parts.encoder_stages;
  if (stages == Stages::decoder) return parts.decoder_stages;
  if (!parts.embedding_stages.empty()) return parts.embedding_stages;
  const int last = mesh.size(Axis::pp) - 1;
  return last == 0 ? std::vector{0} : std::vector{0, last};
}

/// Whether stages of both sides of a split mesh are among them.
bool on_both_sides(const Mesh& mesh, const std::vector<int>& stages) {
  return mesh.is_split() && stages.front() < mesh.front_stages() &&
         stages.back() >= mesh.front_stages();
}

/// What the two sides of a split mesh hold is cut differently, and so are the shards of it: the
/// ranks of an instance of the optimizer that hold the rows which one rank has on the side with
/// fewer tensor ranks.
std::vector<GlobalRank> across_the_split(const Mesh& mesh, const std::vector<int>& stages,
                                         GlobalRank rank) {
  GlobalRank lead = rank;  // at the rank's place on that side
  for (const int stage : {0, mesh.size(Axis::pp) - 1}) {
    const std::vector<GlobalRank> there = mesh.places_in_stage(rank, stage);
    if (there.size() == 1 && mesh.split_parts(there.front()) == 1) lead = there.front();
  }
  std::vector<GlobalRank> ranks;
  for (const GlobalRank one : mesh.group(lead, {Axis::dp_inner})) {
    for (const int stage : stages)
      for (const GlobalRank place : mesh.places_in_stage(one, stage)) ranks.push_back(place);
  }
  std::ranges::sort(ranks, {}, &GlobalRank::value);
  return ranks;
}

template <class F>
void for_each_kind(F f) {
  for (int i = 0; i < kGroupKinds; ++i)
    f(static_cast<GroupKind>(i), row_of(static_cast<GroupKind>(i)));
}

}  // namespace

std::string_view group_kind_name(GroupKind kind) {
  return row_of(kind).name;
}

GroupKind group_kind(Grid grid, std::initializer_list<Axis> axes) {
  std::optional<GroupKind> found;
  std::string there;
  for_each_kind([&](GroupKind kind, const KindRow& row) {
    if (row.grid != grid || row.stages != Stages::all || row.axes.empty()) return;
    if (same_axes(row.axes, axes)) found = kind;
    there += fmt::format("{}{}", there.empty() ? "" : ", ", axis_names(row.axes));
  });
  VIADUCT_CHECK(CommError, found.has_value(), "no groups along {} on the {} grid; there are: {}",
                axis_names(axes), grid == Grid::expert ? "expert" : "attention", there);
  return *found;
}

std::vector<GroupKind> communicator_kinds(const Mesh& mesh) {
  const bool experts = mesh.size(Grid::expert, Axis::ep) > 1 ||
                       mesh.size(Grid::expert, Axis::tp) != mesh.size(Grid::attention, Axis::tp);
  std::vector<GroupKind> kinds;
  for_each_kind([&](GroupKind kind, const KindRow& row) {
    if (row.use == Use::always || (row.use == Use::experts && experts) ||
        (row.use == Use::domains && mesh.parts().expert_domains > 1) ||
        (row.use == Use::stages && !stages_of(mesh, row.stages).empty()) ||
        (row.use == Use::split && mesh.is_split()))
      kinds.push_back(kind);
  });
  return kinds;
}

std::vector<GlobalRank> group_ranks(const Mesh& mesh, GroupKind kind, GlobalRank rank) {
  const KindRow& row = row_of(kind);
  if (row.stages == Stages::all) return mesh.group(row.grid, rank, row.axes);
  std::vector<GlobalRank> some;
  if (row.stages == Stages::own) {
    const std::vector<GlobalRank> ranks = mesh.group(row.grid, rank, row.axes);
    const int parts = mesh.split_parts(rank);
    const auto first =
        ranks.begin() + mesh.coordinate(rank, Axis::tp).value / parts * ptrdiff_t{parts};
    return {first, first + parts};
  }
  const std::vector<int> stages = stages_of(mesh, row.stages);
  if (on_both_sides(mesh, stages)) {
    const int own = mesh.coordinate(rank, Axis::pp).value;
    if (std::ranges::find(stages, own) == stages.end()) return {rank};
    return across_the_split(mesh, stages, rank);
  }
  const std::vector<GlobalRank> ranks = mesh.at_each_stage(rank);
  for (const int stage : stages) some.push_back(ranks[static_cast<size_t>(stage)]);
  if (std::ranges::find(some, rank) == some.end()) return {rank};
  return some;
}

std::vector<std::vector<GlobalRank>> all_groups(const Mesh& mesh, GroupKind kind) {
  const KindRow& row = row_of(kind);
  std::vector<std::vector<GlobalRank>> groups;
  std::vector<bool> known(row.stages == Stages::all ? 0 : static_cast<size_t>(mesh.ranks()));
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (row.stages != Stages::all) {
      if (known[static_cast<size_t>(rank)]) continue;
      groups.push_back(group_ranks(mesh, kind, {rank}));
      for (const GlobalRank member : groups.back()) known[static_cast<size_t>(member.value)] = true;
    } else if (mesh.leads(row.grid, {rank}, row.axes)) {
      groups.push_back(mesh.group(row.grid, {rank}, row.axes));
    }
  }
  return groups;
}

}  // namespace viaduct
