#pragma once
// Training steps of a layout and an evaluation, each rank on the cpu device or on a device with
// side streams: what is left of them must be the same.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct::test {

struct StreamRun {
  Overrides layout;  // after those of `tiny_run`
  int steps = 2;
  bool scaled = false;   // products read scaled operands alone (scaled_ops.h)
  bool offload = false;  // on streams: what units keep goes to a second memory, and comes back
  double patience_seconds = 20;
  /// On devices that capture: the steps before forward and backward of one become a graph; 0: none.
  int64_t steps_before_graph = 0;
  /// On devices that group launches: what of layers becomes graphs.
  std::optional<LayerGraphs> layer_graphs = std::nullopt;
  bool evaluates_between = false;  // after the second step as well, not only at the end
  /// In place of a StreamDevice: the device of a rank with its ops, for a seed.
  std::function<RankDevice(uint64_t seed, int rank)> device = nullptr;
  /// Its world, of several ranks; null: it goes through the host (comm/staged_communicator.h).
  std::function<std::shared_ptr<Communicator>(std::shared_ptr<Communicator> hosts)> world = nullptr;
};

struct StreamOutcome {
  /// By rank: bytes of losses and gradient norms, of a validation loss, of weights and masters.
  std::vector<std::string> states;
  int64_t offloaded = 0;     // storages that went to the second memory
  int64_t out_of_order = 0;  // pieces of work that ran before older ones of other streams
};

/// Without a seed on the cpu device.
StreamOutcome train_on_streams(const StreamRun& run, std::optional<uint64_t> seed);

}  // namespace viaduct::test
