#pragma once
// Training steps of a layout and an evaluation, each rank on the cpu device or on a device with
// side streams: both must give the same results.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct::test {

struct StreamRun {
  Overrides layout;  // settings in addition to those of `tiny_run`
  int steps = 2;
  bool scaled = false;   // products read only scaled operands (scaled_ops.h)
  bool offload = false;  // on streams: saved values of units are offloaded to a second memory
  double patience_seconds = 20;
  /// On devices that can capture: the number of steps before forward and backward become a graph;
  /// 0: none.
  int64_t steps_before_graph = 0;
  /// On devices that group launches: what of layers becomes graphs.
  std::optional<LayerGraphs> layer_graphs = std::nullopt;
  /// Also evaluates after the second step, not only at the end, and reads all weights.
  bool evaluates_between = false;
  /// A rank's device with its ops, for a seed, in place of a StreamDevice.
  std::function<RankDevice(uint64_t seed, int rank)> device = nullptr;
  /// Its world of several ranks; null: communication goes through the host
  /// (comm/staged_communicator.h).
  std::function<std::shared_ptr<Communicator>(std::shared_ptr<Communicator> hosts)> world = nullptr;
};

struct StreamOutcome {
  /// By rank: bytes of losses and gradient norms, of a validation loss, of weights and masters.
  std::vector<std::string> states;
  int64_t offloaded = 0;     // storages that went to the second memory
  int64_t out_of_order = 0;  // pieces of work that ran before older ones of other streams
};

/// Runs on the cpu device if there is no seed.
StreamOutcome train_on_streams(const StreamRun& run, std::optional<uint64_t> seed);

}  // namespace viaduct::test
