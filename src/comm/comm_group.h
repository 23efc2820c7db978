#pragma once
// Messages that begin together, as one operation: in a ring everybody sends and receives, and
// neither may have to wait for the other.

#include <vector>

#include "comm/communicator.h"

namespace viaduct {

/// Collects messages of one flow; `start` begins them. Every rank of a ring collects its own, and
/// all start the same number of groups of a flow, in the same order.
class CommGroup {
 public:
  explicit CommGroup(Communicator& communicator) : communicator_(communicator) {}
  void send(const Tensor& tensor, int to, Flow flow) {
    requests_.push_back(communicator_.send_request(tensor, to, flow));
  }
  void receive(const Tensor& tensor, int from, Flow flow) {
    requests_.push_back(communicator_.receive_request(tensor, from, flow));
  }
  /// One handle for all of them; nothing under way if there are none. CommError as the operations.
  CommHandle start() { return communicator_.launch_group(std::move(requests_)); }

 private:
  Communicator& communicator_;
  std::vector<CommRequest> requests_;
};

}  // namespace viaduct
