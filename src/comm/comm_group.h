#pragma once
// Messages that begin together, as one operation: in a ring every rank sends and receives, and
// neither may have to wait for the other.

#include <vector>

#include "comm/communicator.h"

namespace viaduct {

/// Collects messages of one flow; `start` begins them. Every rank of a ring collects its own
/// messages, and all ranks start the same number of groups of a flow, in the same order.
class CommGroup {
 public:
  explicit CommGroup(Communicator& communicator) : communicator_(communicator) {}
  void send(const Tensor& tensor, int to, Flow flow) {
    requests_.push_back(communicator_.send_request(tensor, to, flow));
  }
  void receive(const Tensor& tensor, int from, Flow flow) {
    requests_.push_back(communicator_.receive_request(tensor, from, flow));
  }
  /// One handle for all of them; an empty group gives a complete handle. CommError as for single
  /// operations.
  CommHandle start() { return communicator_.launch_group(std::move(requests_)); }

 private:
  Communicator& communicator_;
  std::vector<CommRequest> requests_;
};

}  // namespace viaduct
