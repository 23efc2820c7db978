#pragma once
// Softmax cross entropy over a chunk of tokens (ops/cross_entropy.h).

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

struct CrossEntropyRows {
  Rows logits;
  const int32_t* targets;
  double *lse, *target_logit;  // [rows]
  int64_t rows, columns, first_column;
  float softcap;
};
void cross_entropy_forward(const CrossEntropyRows& args, Stream stream);

struct CrossEntropyGradientRows {
  Rows logits, out;  // out may be logits
  const int32_t* targets;
  const double* lse;
  const float* weight;
  const double* factor;  // [1]
  int64_t rows, columns, width, first_column;
  float softcap;
};
void cross_entropy_backward(const CrossEntropyGradientRows& args, Stream stream);

/// share = exp(lse − largest), and lse = largest + log(shares); element by element.
void lse_share(const double* lse, const double* largest, double* share, int64_t count,
               Stream stream);
void lse_join(const double* shares, const double* largest, double* lse, int64_t count,
              Stream stream);

}  // namespace viaduct::cuda
