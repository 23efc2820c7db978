#pragma once
// The bias of a router that each update sets so that every expert gets an equal share of the tokens
// (quantile balancing; Kimi K3 technical report, section 2.3.3 and appendices C and D). It affects
// only the choice. T tokens, E experts, k experts of a token, B bins.
//
// s_te is the sigmoid of a logit, b_e the bias in use, and α_t the (k + 1)-th largest of s_te + b_e
// over all experts of token t. With α_t kept, the token chooses expert e if its bias is above the
// margin α_t − s_te. So a bias at the k / E quantile of an expert's margins gives it the share k /
// E.

#include "ops/dispatch.h"

namespace viaduct {

/// histogram[e, i] (= or +=) the tokens whose margin α_t − s_te is in bin i of B equal bins over
/// [min b − 1, max b + 1], which holds all margins; one that is outside by rounding counts in the
/// last bin there, and a token with a NaN, or of padding, nowhere. Integers: sums over tokens,
/// micro-batches and ranks are the same in any order.
struct CountMarginsArgs {
  Tensor logits;     // f32 or f64 [T, E], contiguous
  Tensor bias;       // dtype of logits [E], contiguous: b
  Tensor histogram;  // i64 [E, B], contiguous
  int64_t topk = 1;  // k < E
  WriteMode mode = WriteMode::accumulate;
  Tensor token_index = {};  // optional i64 [T], contiguous: tokens of −1 are padding
};
void count_margins(OpContext& context, const CountMarginsArgs& args);

/// out_e = the k / E quantile of the margins of expert e, less the mean of these quantiles over all
/// experts. Within a bin margins are taken as evenly spread. An expert without margins keeps b_e
/// as its quantile.
struct QuantileBiasArgs {
  Tensor histogram;  // i64 [E, B], contiguous: of all tokens
  Tensor bias;       // f32 or f64 [E], contiguous: b, as they were counted with
  Tensor out;        // dtype of bias [E], contiguous
  int64_t topk = 1;
};
void quantile_bias(OpContext& context, const QuantileBiasArgs& args);

}  // namespace viaduct
