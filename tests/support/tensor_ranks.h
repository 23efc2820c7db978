#pragma once
// A small model cut over tensor and context ranks (threads of this process) and run forward and
// backward once: loss, logits and every gradient joined to logical tensors, to compare with one
// rank.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/host_batch.h"
#include "model/model.h"
#include "nn/gemm_overlap.h"
#include "nn/second_memory.h"
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
  /// The device of a rank with so many threads; none: `make_cpu_device`.
  std::function<std::unique_ptr<Device>(int)> device = {};
  bool recompute_logits = true;
  bool packed_weights = false;
  bool fp32_residual = false;
  uint64_t draw = 0;  // which of the random weights
  SavedPolicy saved_policy = {};
  /// Where the policy offloads to, on each rank; none: nowhere.
  std::function<std::unique_ptr<SecondMemory>()> second_memory = {};
  /// How the backward is walked: all of it, segment by segment, or that in halves with all weight
  /// halves at the end. The forward goes segment by segment unless all is walked at once.
  enum class Walk { whole, segments, halves } walk = Walk::whole;
  Quantization products = {};  // of all blocks; none: the recipe's
  double deviation = 0.3;      // of the weights
  int repeats = 1;             // of tensor_batch
};

struct TensorOutcome {
  double loss = 0;             // sum of the token losses, equal on all tensor ranks
  std::vector<double> logits;  // of all tokens in their order
  /// By logical tensor: pieces of the ranks put together, partial gradients of replicas and of
  /// context ranks summed.
  std::map<std::string, std::vector<double>> gradients;
  std::vector<StepRecord> records;  // of forward and backward, by rank
  int64_t saved_bytes = 0;          // that rank 0 keeps from forward to backward
  int64_t saved_tag_bytes = 0;      // that it then has with the tag `saved`
};

/// ‖a − b‖ / max(‖b‖, 1e-5 · √elements): as `relative_error`, of an outcome's values.
double distance(const std::vector<double>& a, const std::vector<double>& b);

/// 16 tokens packed from three documents, so many times; some tokens are not scored.
HostBatch tensor_batch(int64_t vocabulary, int repeats = 1);

/// One step with dropout on. Weights are a function of the logical tensors' names. Fails the test
/// if gradients of replicas that should be equal are not, or if padding gets a gradient.
TensorOutcome run_tensor_ranks(const TensorRun& run);

/// Fails the test unless loss, logits and all gradients of `b` have the bits of `a`'s.
void expect_same_bits(const TensorOutcome& a, const TensorOutcome& b);

/// The model's parts on every rank: [rank][parameter].
std::vector<std::vector<Parameter>> parameters_by_rank(const TensorRun& run);

}  // namespace viaduct::test
