#include "ops/embedding.h"

#include "ops/reference/reference.h"

namespace viaduct::reference {

void embedding_forward(const EmbeddingForwardArgs& args) {
  const int32_t* ids = args.ids.data<int32_t>();
  const double* weight = args.weight.data<double>();
  const int64_t rows = args.weight.dim(0), width = args.weight.dim(1);
  for (int64_t t = 0; t < args.ids.dim(0); ++t) {
    double* out = args.out.data<double>() + t * args.out.stride(0);
    const int64_t row = ids[t] - args.first_row;
    for (int64_t h = 0; h < width; ++h) {
      const double value = row >= 0 && row < rows ? args.scale * weight[row * width + h] : 0;
      out[h] = args.mode == WriteMode::accumulate ? out[h] + value : value;
    }
  }
}

void embedding_backward(const EmbeddingBackwardArgs& args) {
  const int32_t* ids = args.ids.data<int32_t>();
  double* d_weight = args.d_weight.data<double>();
  const int64_t rows = args.d_weight.dim(0), width = args.d_weight.dim(1);
  if (args.mode == WriteMode::assign) {
    for (int64_t i = 0; i < rows * width; ++i) d_weight[i] = 0;
  }
  for (int64_t t = 0; t < args.ids.dim(0); ++t) {
    const double* d_out = args.d_out.data<double>() + t * args.d_out.stride(0);
    const int64_t row = ids[t] - args.first_row;
    if (row < 0 || row >= rows || ids[t] == args.padding_id) continue;
    for (int64_t h = 0; h < width; ++h) d_weight[row * width + h] += args.scale * d_out[h];
  }
}

}  // namespace viaduct::reference
