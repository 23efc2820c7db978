#pragma once
// A small model cut over tensor and context ranks (threads of this process), run forward and
// backward once. Loss, logits and every gradient are joined to logical tensors, for comparison with
// one rank.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/second_memory.h"
#include "engine/host_batch.h"
#include "model/model.h"
#include "nn/gemm_overlap.h"
#include "ops/cpu/cpu_ops.h"
#include "sharding/parameter_store.h"
#include "timeline/record.h"

namespace viaduct::test {

struct TensorRun {
  ModelConfig model;
  std::string recipe = "fp64";
  int tp = 1;
  bool sequence_parallel = false;
  int64_t vocabulary_multiple = 1;
  int cp = 1, cp_inner = 1;
  std::vector<ContextExchange> context_exchange;  // by block; empty: p2p
  GemmOverlapTable overlap = {};
  Fusions fusions = {};
  /// The table of ops for the instruction set; none: `cpu_ops`.
  std::function<OpTable(CpuIsa)> ops = {};
  /// The device of a rank for a number of threads; none: `make_cpu_device`.
  std::function<std::unique_ptr<Device>(int)> device = {};
  bool recompute_logits = true;
  bool packed_weights = false;
  bool fp32_residual = false;
  uint64_t draw = 0;  // selects the random weights
  SavedPolicy saved_policy = {};
  /// The second memory of each rank for offloading; none: nothing is offloaded.
  std::function<std::unique_ptr<SecondMemory>()> second_memory = {};
  /// How the backward runs: all at once, segment by segment, or in halves with all weight halves at
  /// the end. The forward goes segment by segment unless all runs at once.
  enum class Walk { whole, segments, halves } walk = Walk::whole;
  Quantization products = {};  // of all blocks; none: the recipe's
  double deviation = 0.3;      // of the weights
  int repeats = 1;             // of tensor_batch
};

struct TensorOutcome {
  double loss = 0;             // sum of the token losses, equal on all tensor ranks
  std::vector<double> logits;  // of all tokens in their order
  /// By logical tensor: the ranks' pieces put together, partial gradients of replicas and of
  /// context ranks summed.
  std::map<std::string, std::vector<double>> gradients;
  std::vector<StepRecord> records;  // of forward and backward, by rank
  int64_t saved_bytes = 0;          // kept by rank 0 from forward to backward
  int64_t saved_tag_bytes = 0;      // held by it then with the tag `saved`
};

/// ‖a − b‖ / max(‖b‖, 1e-5 · √elements), as `relative_error`, for the values of an outcome.
double distance(const std::vector<double>& a, const std::vector<double>& b);

/// `repeats` times 16 tokens packed from three documents; some tokens are not scored.
HostBatch tensor_batch(int64_t vocabulary, int repeats = 1);

/// Runs one step with dropout. Weights are a function of the logical tensors' names. Fails the test
/// if replicas that should have equal gradients do not, or if padding gets a gradient.
TensorOutcome run_tensor_ranks(const TensorRun& run);

/// Fails the test unless loss, logits and all gradients of `b` equal those of `a` bit for bit.
void expect_same_bits(const TensorOutcome& a, const TensorOutcome& b);

/// The model's parts on every rank: [rank][parameter].
std::vector<std::vector<Parameter>> parameters_by_rank(const TensorRun& run);

}  // namespace viaduct::test
