#pragma once
// What the routers of a rank did in a step: for each layer with experts how often each expert was
// chosen, and sums over its tokens. Routers add to it; reports read it after the step. Routers that
// balance over the step also read the choices so far, and an update that sets their biases the
// margins.

#include <map>
#include <vector>

#include "nn/moe/moe_config.h"
#include "ops/expert_rows.h"

namespace viaduct {

class SavedStore;
struct Parameter;
struct RankContext;

class RouterLog {
 public:
  /// What is summed over the tokens of a layer.
  enum Sum {
    balance_loss,  // E / (k · N) · Σ_e P_e · n_e (ops/routing.h), without its factor; 0 without one
    z_loss,        // logsumexp(logits)², without its factor
    entropy,       // of the probabilities over all experts, in nats
    kSums
  };

  /// One layer's part of the log.
  struct Layer {
    int64_t block = 0;     // its global number
    Tensor choices, kept;  // i64 [E]: of each expert; kept: within its capacity
    /// f64 [max(1, L), kSums] with L balancing losses, each with its own in its row; the other sums
    /// of the first row count.
    Tensor sums;
    bool any = false;       // the step has added to it
    Tensor rows;            // i64 [1]: of all experts, where they are filled up to a multiple
    bool any_rows = false;  // the step has added to them
    int64_t copies = 1;     // rows of a choice (ops/expert_rows.h)
    bool biased = false;    // its router has a bias that balances experts
    /// [T, E] of each micro-batch of the step, on the host, where the log keeps them.
    std::vector<Tensor> logits;

    // For BalanceScope::step.
    Tensor so_far;            // i64 [E]: choices of this rank's tokens, counted in first forwards
    bool any_so_far = false;  // the step has added to it
    /// For recomputed layers: the counts over all ranks of a micro-batch's first forward (by its
    /// store), until the second one.
    std::map<const SavedStore*, Tensor> first_counts;

    // For a load bias that each update sets (ops/load_quantile.h).
    const Parameter* load_bias = nullptr;  // whose margins are here; null: none are counted
    bool any_margins = false;              // the step has added to them
    Tensor margins;                        // i64 [E, bins]: of this rank's tokens in the step
    Tensor bias;                           // [E]: the bias that they were counted with
  };

  /// Of the layers of this rank with these global numbers, in their order, as `moe` says.
  /// `statistic`: the format of load biases.
  RouterLog(OpContext& context, const std::vector<int64_t>& blocks, const MoeConfig& moe,
            DType statistic);

  /// Clears the log of the last step.
  void begin_step(OpContext& context);
  /// ShapeError if the rank has no such layer.
  Layer& layer(int64_t block);
  std::vector<Layer>& layers() { return layers_; }
  /// i64 [layers, E, bins]: the margins of all layers; undefined where none are counted.
  const Tensor& margins() const { return margins_; }
  int64_t topk() const { return topk_; }
  /// From now on steps keep their logits (Layer::logits).
  void keep_logits() { keeps_logits_ = true; }
  bool keeps_logits() const { return keeps_logits_; }
  /// Has `order` add its rows to those of a layer.
  void count_rows(int64_t block, SortByExpertArgs& order);

 private:
  std::vector<Layer> layers_;
  Tensor margins_;
  int64_t topk_;  // experts of a token
  bool keeps_logits_ = false;
};

/// Whether this run of a layer is one that the log has: of two, the one whose results are kept.
bool logs(const RankContext& context, const SavedStore& saved);

}  // namespace viaduct
