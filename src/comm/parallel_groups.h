#pragma once
// The communicators of one rank: one for each group that a run needs, all created before the first
// step, in one order on all ranks. Groups come from the mesh, by grid and axes
// (comm/group_kinds.h); layers, sharding, pipeline and train take theirs from here. A group of one
// rank is the self communicator, so no caller checks sizes.

#include <array>
#include <initializer_list>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/group_kinds.h"
#include "comm/mesh.h"

namespace viaduct {

class ParallelGroups {
 public:
  using Group = std::shared_ptr<Communicator>;

  /// No groups: a placeholder to assign to.
  ParallelGroups() = default;
  /// Splits `world`, which has as many ranks as the mesh. Every rank of the world calls it.
  /// `of_tp`: connections of group tp beside its usual ones, for exchanges that name them.
  ParallelGroups(const Mesh& mesh, Group world, const std::vector<OwnConnection>& of_tp = {});

  /// The ranks that differ from this one only along `axes` of the grid, in whatever order they are
  /// named. CommError that lists the existing groups if no kind of group has these axes, or if this
  /// run has none of the kind (those of the expert grid without experts).
  const Group& of(Grid grid, std::initializer_list<Axis> axes) const;
  const Group& of(GroupKind kind) const;

  Communicator& world() const { return *world_; }
  // On the attention grid:
  Communicator& tp() const { return *of(GroupKind::tp); }
  Communicator& tp_kv() const { return *of(GroupKind::tp_kv); }
  Communicator& cp() const { return *of(GroupKind::cp); }
  Communicator& cp_inner() const { return *of(GroupKind::cp_inner); }
  Communicator& cp_outer() const { return *of(GroupKind::cp_outer); }
  Communicator& dp() const { return *of(GroupKind::dp); }
  Communicator& dp_cp() const { return *of(GroupKind::dp_cp); }
  Communicator& dp_cp_inner() const { return *of(GroupKind::dp_cp_inner); }
  Communicator& dp_cp_outer() const { return *of(GroupKind::dp_cp_outer); }
  /// Of a split mesh with all tensor ranks of its stages: a rank of it is no stage's number.
  Communicator& pp() const { return *of(GroupKind::pp); }
  /// This rank's pipeline stage, of so many.
  int stage() const { return stage_; }
  int stages() const { return stages_; }
  /// The ranks of pp() in a stage that have this rank's place: several where they have parts of it.
  const std::vector<int>& in_stage(int stage) const {
    return in_stage_[static_cast<size_t>(stage)];
  }
  /// The rank of pp() that gives to all what the tensor ranks of a stage have alike.
  int root_of(int stage) const { return roots_[static_cast<size_t>(stage)]; }
  Communicator& embedding() const { return *of(GroupKind::embedding); }
  /// Runs of 1, 2, 4, … ranks of dp_cp with this rank, each of which can share a document; none
  /// unless the mesh has document groups.
  const std::vector<Group>& documents() const { return documents_; }

 private:
  void find_stages(const Mesh& mesh);
  void open_channels();

  Group world_;
  std::array<Group, kGroupKinds> groups_;  // by GroupKind; null: the run has none of it
  std::vector<Group> documents_;
  int stage_ = 0, stages_ = 1;
  std::vector<std::vector<int>> in_stage_;  // by stage
  std::vector<int> roots_;                  // by stage
};

/// Whether this is the first of the ranks that read the same rows: only this rank's counts are
/// used.
bool leads_data_place(const ParallelGroups& groups);

/// Groups of a run of one rank.
ParallelGroups self_groups();

}  // namespace viaduct
