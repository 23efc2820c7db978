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
  /// `on`: the connection that carries them (Communicator::open_connections).
  explicit CommGroup(Communicator& communicator, const ConnectionSettings& on = {})
      : communicator_(communicator), on_(on) {}
  void send(const Tensor& tensor, int to, Flow flow) {
    requests_.push_back(communicator_.send_request(tensor, to, flow));
    requests_.back().connection = on_;
  }
  void receive(const Tensor& tensor, int from, Flow flow) {
    requests_.push_back(communicator_.receive_request(tensor, from, flow));
    requests_.back().connection = on_;
  }
  /// One handle for all of them; an empty group gives a complete handle. CommError as for single
  /// operations.
  CommHandle start() { return communicator_.launch_group(std::move(requests_)); }

 private:
  Communicator& communicator_;
  const ConnectionSettings on_;
  std::vector<CommRequest> requests_;
};

}  // namespace viaduct
