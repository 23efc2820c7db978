#pragma once
// The kinds of groups that a run can need, as a table over the mesh: every rank is in exactly one
// group of each kind.

#include <initializer_list>
#include <string_view>
#include <vector>

#include "comm/mesh.h"

namespace viaduct {

enum class GroupKind {
  dp_cp,               // gradients of dense weights
  dp_cp_inner,         // of those, one instance of the distributed optimizer
  dp_cp_outer,         // the ranks with the same shard in all instances
  dp,                  // replicas of the same sequence part
  tp,                  // share each layer
  tp_kv,               // hold the same key-value heads
  tp_split,            // have the place of one rank beyond a split of the mesh
  cp,                  // share a sequence
  cp_inner,            // its level of all-to-all
  cp_outer,            // its level of rings
  tp_cp,               // hold one sequence's activations
  tp_dp_cp,            // hold one stage; maxima of scaling factors
  pp,                  // stages
  model,               // tp · pp: hold one replica
  embedding,           // stages that hold the token table: first and last; others are alone
  encoder_positions,   // stages that hold the table of an encoder's relative positions
  decoder_positions,   // stages that hold the table of the decoder's
  position_embedding,  // the first stage
  ep,
  expert_tp,
  expert_tp_ep,
  expert_tp_ep_inner,  // of those, the ranks of one fast domain
  ep_outer,            // the ranks at the same place in all these domains
  expert_tp_ep_pp,
  expert_dp,
  expert_dp_inner,
  expert_dp_outer,
  statistics,  // one instance of the distributed optimizer: gradient norm
};
inline constexpr int kGroupKinds = 28;

/// "dp_cp", "dp_cp.inner", "tp.kv" …: what records, messages and the dry run call it.
std::string_view group_kind_name(GroupKind kind);

/// The kind whose groups differ along just these axes of the grid, in whatever order they are
/// named. CommError that lists the grid's kinds if there is none.
GroupKind group_kind(Grid grid, std::initializer_list<Axis> axes);

/// The kinds that a run over this mesh communicates in, in the order in which communicators are
/// made. Gradients come first: a switch that reduces may serve only the first group that is made.
/// The expert grid has its own where it differs from the attention grid.
std::vector<GroupKind> communicator_kinds(const Mesh& mesh);

/// The group of `kind` that `rank` is in, ascending.
std::vector<GlobalRank> group_ranks(const Mesh& mesh, GroupKind kind, GlobalRank rank);

/// All groups of a kind, by their lowest rank.
std::vector<std::vector<GlobalRank>> all_groups(const Mesh& mesh, GroupKind kind);

}  // namespace viaduct
