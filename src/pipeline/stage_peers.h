#pragma once
// Messages between pipeline stages. Where the tensor sizes of two stages differ, a message goes in
// parts, each of equally many rows (the last ones of fewer, maybe none): from one rank to the
// several that have its place in the other stage, and back.

#include <vector>

#include "comm/parallel_groups.h"

namespace viaduct {

class StagePeers {
 public:
  /// A rank of the group is a stage's number.
  StagePeers(Communicator& pp) : pp_(&pp), stage_(pp.rank()) {}  // NOLINT: a group without a mesh
  /// References outlive this object.
  StagePeers(const ParallelGroups& groups)  // NOLINT: what a rank has of a mesh
      : pp_(&groups.pp()), groups_(&groups), stage_(groups.stage()) {}

  Communicator& pp() const { return *pp_; }
  int stage() const { return stage_; }

  /// Appends the handles of the messages that move `tensor`; none if it is empty, as both ends know
  /// by the batch.
  void send(const Tensor& tensor, int stage, Flow flow, std::vector<CommHandle>& handles) const;
  void receive(const Tensor& tensor, int stage, Flow flow, std::vector<CommHandle>& handles) const;

 private:
  template <class F>
  void for_each_part(const Tensor& tensor, int stage, F f) const;

  Communicator* pp_;
  const ParallelGroups* groups_ = nullptr;
  int stage_;
};

}  // namespace viaduct
