#pragma once
// Softmax cross entropy over a chunk of tokens whose logits are in memory, in two halves so that
// the vocabulary may be split over ranks: the forward gives log-sum-exp and target logit over this
// rank's columns, which are merged over ranks (`lse_share`, `lse_join`); the loss of a token is lse
// − target_logit; the backward turns logits into their gradient in place. lse and target_logit are
// FP64: for a token of high probability the loss is a small difference of large numbers. Logits z
// pass through softcap · tanh(z / softcap) first if softcap > 0 (Gemma 2).

#include "ops/dispatch.h"

namespace viaduct {

/// Column c of the logits is token first_column + c. Columns beyond `columns` (padding of the
/// vocabulary) are ignored; their gradient is 0. Without any columns lse is −∞.
struct CrossEntropyForwardArgs {
  Tensor logits;        // [t, V], f32, bf16 or f16 (f64), rows strided
  Tensor targets;       // i32 [t]: a token, −1 without loss
  Tensor lse;           // out, f64 [t]
  Tensor target_logit;  // out, f64 [t]; 0 if the target is −1 or not among the columns
  int64_t columns = 0;
  double softcap = 0;
  int64_t first_column = 0;
};

void cross_entropy_forward(OpContext& context, const CrossEntropyForwardArgs& args);

/// out [t, V] = weight[t] · factor · (softmax(z) − onehot(target)) · dsoftcap, factor = one value
/// in device memory (the loss scale). out may be logits itself or another dtype. weight 0 (no loss)
/// gives a row of zeros.
struct CrossEntropyBackwardArgs {
  Tensor logits;
  Tensor targets;
  Tensor lse;     // f64 [t], merged over ranks if the vocabulary is split
  Tensor weight;  // f32 [t]
  Tensor factor;  // f64 [1]
  Tensor out;
  int64_t columns = 0;
  double softcap = 0;
  int64_t first_column = 0;
};

void cross_entropy_backward(OpContext& context, const CrossEntropyBackwardArgs& args);

/// share [t] = exp(lse − largest): the weight of one rank's columns, relative to the largest
/// rank's. Equal infinities give 1. share may be lse.
struct LseShareArgs {
  Tensor lse, largest, share;  // f64 [t]
};
void lse_share(OpContext& context, const LseShareArgs& args);

/// lse [t] = largest + log(shares): over all ranks' columns, from the sum of their shares. lse may
/// be either.
struct LseJoinArgs {
  Tensor shares, largest, lse;  // f64 [t]
};
void lse_join(OpContext& context, const LseJoinArgs& args);

}  // namespace viaduct
