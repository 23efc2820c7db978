#pragma once
// The communicators of one rank: one for each group that a run needs, all created before the first
// step, in one order on all ranks. Layers, sharding, pipeline and train take their group from here;
// a group of one rank is the self communicator, so nobody asks for sizes.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/mesh.h"

namespace viaduct {

struct ParallelGroups {
  using Group = std::shared_ptr<Communicator>;

  Group world;
  Group tp;
  Group tp_kv;  // the tensor ranks that hold the same key-value heads (fewer heads than tp)
  Group cp;
  Group cp_inner;  // hierarchical context parallel: level 0 (all-to-all), contiguous cp ranks
  Group cp_outer;  // and level 1 (ring)
  Group dp;
  Group dp_cp;        // gradients of dense weights are summed over it
  Group dp_cp_inner;  // ranks of dp_cp in one instance of the distributed optimizer
  Group dp_cp_outer;  // the ranks with the same shard in all instances
  Group pp;
  /// Runs of 1, 2, 4, … ranks of dp_cp with this rank, each of which can share a document; none
  /// unless the mesh has document groups.
  std::vector<Group> documents;
  Group embedding;   // first and last stage of a pipeline; alone on stages between them
  Group statistics;  // all ranks of one instance of the distributed optimizer: gradient norm
};

/// Splits `world`, which has as many ranks as the mesh. Every rank of the world calls it.
ParallelGroups make_parallel_groups(const Mesh& mesh, std::shared_ptr<Communicator> world);
/// The same with other parts of the axes; ConfigError if they do not fit the mesh.
ParallelGroups make_parallel_groups(const Mesh& mesh, std::shared_ptr<Communicator> world,
                                    const GroupSizes& sizes);

/// Whether this is the first of the ranks that read the same rows: what these ranks count is
/// counted once.
bool leads_data_place(const ParallelGroups& groups);

/// Groups of a run of one rank.
ParallelGroups self_groups();

}  // namespace viaduct
