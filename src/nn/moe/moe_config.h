#pragma once
// A mixture of experts in place of the feed-forward of a block, as layers read it.

#include <cstdint>
#include <vector>

#include "ops/expert_capacity.h"
#include "ops/routing.h"

namespace viaduct {

/// How tokens reach ranks that hold their experts. Without expert parallelism nothing is sent.
enum class ExpertDispatch {
  all_to_all,  // each rank gets the rows of its experts
  all_gather,  // each rank gets all tokens, and results are summed over the ranks
  // As all_to_all, but the exchange reads and writes rows by number; where ranks lie in several
  // fast domains (ExpertPlace::domains), a token goes to each of them once.
  fused,
};

/// Which choices a balancing loss counts together (ops/routing.h).
enum class BalanceScope {
  micro_batch,  // those of a micro-batch, on all ranks that share its rows
  document,     // those of each document
  step,         // those of the step so far, of all ranks
};

/// What the products of a router read, and the format of its logits.
enum class RouterFormat {
  activations,  // tokens and weight unconverted; logits FP32
  f32,          // FP32 copies; logits FP32
  f64,          // FP64 copies; logits FP64
};

/// A balancing loss (ops/routing.h).
struct BalanceLoss {
  double coefficient = 0;  // in the gradient
  BalanceScope scope = BalanceScope::micro_batch;
  bool operator==(const BalanceLoss&) const = default;
};

struct MoeConfig {
  int64_t experts = 0;       // E; 0: every layer is dense
  int64_t feed_forward = 0;  // F of an expert
  RoutingRule routing;
  std::vector<int64_t> layers;  // 1 for a layer with experts, 0 for a dense one; one entry a layer
  /// The feed-forward of the expert that every token uses; 0: there is none.
  int64_t shared_feed_forward = 0;
  bool shared_gate = false;  // its output times sigmoid(x · w)
  /// A token's only expert reads p · x, p its weight, and results are not weighted (Llama 4).
  bool weighs_input = false;
  /// The shared expert runs while tokens are on their way to the ranks of their experts.
  bool shared_overlap = false;
  /// Also of its gradients. A layer of f64 activations has FP64 everywhere.
  RouterFormat router_format = RouterFormat::activations;
  ExpertDispatch dispatch = ExpertDispatch::all_to_all;
  /// Tokens on their way to experts, and gradients of results in the backward, are MXFP8
  /// (nn/moe/wire_format.h); also where they stay on their rank, so that layouts round alike.
  bool quantized_tokens = false, quantized_gradients = false;
  std::vector<BalanceLoss> balance_losses;  // of different scopes; no coefficient is 0
  double z_coefficient = 0;                 // of the z-loss
  /// router_aux_loss_coef of a Hugging Face folder: training reads `balance_losses` alone, and
  /// `probe` shows the loss with this one where there are none.
  double folder_coefficient = 0;
  /// In training the choice follows logits plus a bias that balances the tokens of a micro-batch
  /// over the experts (ops/sinkhorn.h); `routing` chooses by logits then.
  bool sinkhorn = false;
  /// The choice follows scores plus a bias that balances experts (ops/load_bias.h).
  bool load_bias = false;
  double load_bias_rate = 1e-3;
  /// Each update sets the bias to a quantile of the step's margins (ops/load_quantile.h), which are
  /// counted in this many bins; 0: each update moves it by its rate.
  int64_t quantile_bins = 0;
  /// In training the router reads tokens times noise in [1 − e, 1 + e].
  double input_jitter = 0;
  /// Maximum choices of an expert among the T tokens of a rank, as a multiple of an equal share
  /// T · k / E, rounded up; 0: no limit.
  double capacity_factor = 0;
  /// Maximum choices that a rank's T tokens have among the experts of one of ep ranks together, as
  /// a multiple of an equal share T · k / ep, rounded up; 0: no limit. Of the choices that the
  /// limit of an expert leaves.
  double rank_capacity_factor = 0;
  DropPolicy drop_policy = DropPolicy::probabilities;
  bool pad_to_capacity = false;  // each expert has rows for its capacity from each rank
  /// The rows of each expert from each rank are a multiple of what the recipe's products read.
  bool pad_for_quantization = false;
  int64_t rows_multiple = 1;  // which is this; build_moe sets it
  /// The index of its token comes with each row of an expert: adapters of experts drop by it.
  /// build_moe sets it.
  bool row_indices = false;
  /// Random numbers in place of logits, so that experts have about equal load: for benchmarks.
  bool random_logits = false;

  bool any() const { return experts > 0; }
  /// Routers add gradients of losses of their own.
  bool has_router_losses() const {
    return any() && (!balance_losses.empty() || z_coefficient != 0);
  }
  /// Maximum choices of an expert among `tokens` tokens of a rank; 0: no limit.
  int64_t capacity(int64_t tokens) const;
  /// Maximum choices of the experts of one of `ep` ranks among `tokens` tokens; 0: no limit.
  int64_t rank_capacity(int64_t tokens, int64_t ep) const;
  /// Some choices may be dropped.
  bool drops() const { return capacity_factor > 0 || rank_capacity_factor > 0; }
  /// `rows`, or the next multiple of `rows_multiple`.
  int64_t padded(int64_t rows) const {
    return (rows + rows_multiple - 1) / rows_multiple * rows_multiple;
  }
  bool routes(int64_t layer) const {
    return any() && (layers.empty() || layers[static_cast<size_t>(layer)] != 0);
  }
  bool operator==(const MoeConfig&) const = default;
};

}  // namespace viaduct
