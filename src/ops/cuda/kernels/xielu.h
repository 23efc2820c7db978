#pragma once
// xIELU (ops/xielu.h).

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

struct XieluRows {
  Rows in, out;
  Vector alpha_p, alpha_n;
  int64_t rows, width;
};
void xielu_forward(const XieluRows& args, Stream stream);

struct XieluGradients {
  Rows d_out, in, d_in;  // d_in may be in
  Vector alpha_p, alpha_n;
  float *d_alpha_p, *d_alpha_n;  // +=; null: not computed
  double* sums;                  // two for each part of the rows
  int64_t parts, rows, width;
};
void xielu_backward(const XieluGradients& args, Stream stream);

}  // namespace viaduct::cuda
