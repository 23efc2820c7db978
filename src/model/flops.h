#pragma once
// Floating-point operations of a training step by the project's convention, the basis of TFLOP/s
// and MFU everywhere.
//
// Model FLOPs of forward and backward: a matrix product counts 2 per multiply-add, and the backward
// twice the forward (×3).
//
// Token part: 6 · (matmul parameters) per token, from projections, MLP and the LM head with the
// true (unpadded) vocabulary; of the experts only the k that a token is routed to, the shared one,
// and the router. Not counted: embedding lookup, norms, biases, activations, softmax,
// the loss, recomputation, the optimizer.
//
// Attention part: QKᵀ and PV are 6 · (q + v) · (attended pairs) per layer, q = heads · head size, v
// the same for values: 12 · q except in latent attention.
// - Causal attention attends half of the square: a document of length S has S²/2 pairs, 6 · q · S².
// - Documents packed in a row attend only within themselves: pairs add up over documents.
// - In chunks of C tokens a document attends as if each were a document of its own.
// - A sliding window W < S removes the far triangle: S²/2 − (S − W)²/2 = W·S − W²/2 pairs, which is
//   S²/2 at W = S.
//
// A model with an encoder has for each document of its decoder a row of the encoder: its tokens go
// through the encoder's layers and through the keys and values of cross attention in each of the
// decoder's; pairs are all of a row's in the encoder, and decoder · encoder in cross attention.
//
// Beside adapters the model's weights are frozen: 4 · (matmul parameters) per token, for they have
// no gradient, and 6 · (parameters of the adapters). An encoder in which nothing trains counts its
// forward alone, as keys and values of its output do.
//
// The dense formula: Narayanan et al. 2021 (arXiv 2104.04473, appendix), with causal halving and
// without recomputation.

#include <cstdint>
#include <span>
#include <vector>

namespace viaduct {

struct AdapterSettings;
struct ModelConfig;

/// The sizes that determine the count. A model configuration maps to it.
struct FlopSizes {
  int64_t layers = 0;
  int64_t hidden = 0;           // H
  int64_t feed_forward = 0;     // F
  int64_t heads = 0;            // N
  int64_t key_value_heads = 0;  // K
  int64_t head_dim = 0;         // D
  /// Layers without a window, where their attention is another: their number, K and D, and whether
  /// they have a projection of values.
  int64_t full_layers = 0, full_key_value_heads = 0, full_head_dim = 0;
  bool full_values = true;
  /// Latent attention (kv_rank > 0): ranks and parts of heads as in LatentSizes (model_config.h).
  int64_t q_rank = 0, kv_rank = 0, plain_dim = 0, rotary_dim = 0, value_dim = 0;
  int64_t vocabulary = 0;  // V, true size
  bool gated_mlp = false;  // three projections (SwiGLU, GeGLU) instead of two
  /// Experts, in the layers that have them instead of the feed-forward above (0: none): what a
  /// token passes through.
  int64_t expert_layers = 0;
  int64_t experts = 0;              // E, for the router's product
  int64_t experts_of_token = 0;     // k
  int64_t expert_feed_forward = 0;  // F of an expert
  int64_t shared_feed_forward = 0;  // of the shared expert, 0: none
  /// Layers of multi-token prediction, each with experts (or not) and a window like the last layer:
  /// beside the block a projection [2 H → H] and the LM head once more. Not in `layers`.
  int64_t mtp_layers = 0;
  bool mtp_experts = false;
  bool frozen = false;  // the weights above, beside adapters with this many parameters
  double adapter_parameters = 0;
  /// Of those that multiply the encoder's tokens; what they are reduced by has 2/3 where nothing
  /// goes back.
  double encoder_adapter_parameters = 0;
  double trained_parameters = 0;  // those of the weights that train nevertheless: the head's
  bool causal = true;             // false: encoders, which attend the whole square
  /// The layers of an encoder in front, of the same sizes, and the tokens of its rows.
  int64_t encoder_layers = 0, encoder_length = 0;
  bool encoder_frozen = false;  // nothing goes back to it
  /// Window of each layer (0: none); empty: no layer has one. Otherwise one entry per layer.
  std::vector<int64_t> sliding_windows;
  /// Tokens of a chunk of attention of each layer (0: not in chunks); empty: no layer has chunks.
  std::vector<int64_t> chunks;
};

/// The sizes of a model (model/model_config.h), and of the adapters of a run.
FlopSizes flop_sizes(const ModelConfig& config);
FlopSizes flop_sizes(const ModelConfig& config, const AdapterSettings& adapters);

/// A count by parts. Doubles: exact up to 2^53 and precise enough beyond.
struct FlopCount {
  double token_part = 0;
  double attention_part = 0;
  /// The attention part of sources that neither halve for causality nor cut windows:
  /// 6 · (q + v) · S² per layer.
  double attention_part_full = 0;

  /// The project's convention ("model", causal half).
  double model() const { return token_part + attention_part; }
  /// The uncausal count (`--flops full`).
  double full() const { return token_part + attention_part_full; }
};

/// The name of the convention that metrics carry.
inline constexpr const char* kFlopConvention = "model_causal";

/// Parameters that take part in a matrix product for each token: the token part is 6 × this.
/// ShapeError on sizes that are not positive, heads that key-value heads do not divide, or a list
/// of windows of the wrong length.
double matmul_parameters(const FlopSizes& sizes);

/// FLOPs of forward and backward over documents of these lengths (an unpacked batch: `global batch`
/// times the sequence length).
FlopCount training_flops(const FlopSizes& sizes, std::span<const int64_t> document_lengths);
/// The same for `sequences` equal ones of `sequence_length` tokens.
FlopCount training_flops(const FlopSizes& sizes, int64_t sequences, int64_t sequence_length);

/// FLOPs of forward and backward of an image, up to the rows that stand in the text: the matrices
/// of patches, of the tower's blocks that are read and of the projector, and all pairs of an
/// image's tokens. A frozen tower counts its forward alone; a frozen projector has no gradient of
/// its weights, and under adapters no matrix of the model has one. 0 for a model that reads none.
double image_flops(const ModelConfig& config);
double image_flops(const ModelConfig& config, const AdapterSettings& adapters);

/// TFLOP/s of one rank. `seconds` > 0, `ranks` > 0.
double tflops_per_rank(double flops, double seconds, int64_t ranks);

}  // namespace viaduct
