#pragma once
// The ops of a transformer layer, of its embedding and head and of the optimizer, timed one by one:
// the work of `viaduct bench ops`.

#include <cstdint>
#include <string>
#include <vector>

#include "bench_device.h"

namespace viaduct::cli {

struct LayerShape {
  int64_t tokens = 8192, sequence = 4096, hidden = 4096, ffn = 14336, heads = 32, kv_heads = 8;
  int64_t vocab = 128'256;
  DType dtype = DType::bf16;  // of activations and weights

  int64_t head_dim() const { return hidden / heads; }
};

/// The ceiling that an op is compared with.
enum class Bound { product, memory };

struct OpTiming {
  std::string op, kernel, shapes;  // as a record has them
  Bound bound = Bound::memory;
  double seconds = 0;  // of one call
  double flops = 0;    // of one call
  double bytes = 0;    // read and written by one call

  double tflops() const { return flops / seconds * 1e-12; }
  double gbytes_per_second() const { return bytes / seconds * 1e-9; }
};

/// Times each op `rounds` times and takes the median. Operands that an op finds in memory in a step
/// are others in each call, more of them than the last cache holds.
std::vector<OpTiming> time_ops(BenchDevice& device, const LayerShape& shape, int rounds);

/// An upper bound of the bytes of `time_ops`' operands.
double op_timing_bytes(const BenchDevice& device, const LayerShape& shape);

}  // namespace viaduct::cli
