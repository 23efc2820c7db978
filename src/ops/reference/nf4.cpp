#include "ops/nf4.h"

#include <algorithm>
#include <cmath>

#include "ops/reference/reference.h"
#include "tensor/nf4.h"

// The values are FP32 by definition: plain loops in that format, whatever the tensors' own.

namespace viaduct::reference {
namespace {

float value_at(const Tensor& tensor, int64_t i) {
  float value = 0;
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    value = static_cast<float>(tensor.data<decltype(zero)>()[i]);
  });
  return value;
}

}  // namespace

void quantize_nf4(const QuantizeNf4Args& args) {
  const int64_t elements = args.values.dim(0);
  auto* codes = static_cast<uint8_t*>(args.codes.raw());
  for (int64_t begin = 0; begin < elements; begin += kNf4Block) {
    const int64_t end = std::min(elements, begin + kNf4Block);
    float absmax = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float magnitude = std::abs(value_at(args.values, i));
      if (magnitude > absmax || std::isnan(magnitude)) absmax = magnitude;
    }
    args.absmax.data<float>()[begin / kNf4Block] = absmax;
    for (int64_t i = begin; i < end; ++i) {
      const float factor = absmax == 0 ? 0 : 1 / absmax;
      const float v = std::clamp(value_at(args.values, i) * factor, -1.0f, 1.0f);
      int code = 0;
      for (const float midpoint : kNf4Midpoints) code += v > midpoint ? 1 : 0;
      uint8_t& pair = codes[i / 2];
      pair = static_cast<uint8_t>(i % 2 == 0 ? code << 4 : pair | code);
    }
  }
}

void quantize_absmax(const QuantizeAbsmaxArgs& args) {
  const int64_t blocks = args.absmax.dim(0);
  const float* absmax = args.absmax.data<float>();
  float& offset = *args.offset.data<float>();
  if (!args.offset_given) {
    double sum = 0;
    for (int64_t i = 0; i < blocks; ++i) sum += absmax[i];
    offset = blocks == 0 ? 0 : static_cast<float>(sum / static_cast<double>(blocks));
  }
  auto* codes = static_cast<uint8_t*>(args.codes.raw());
  for (int64_t begin = 0; begin < blocks; begin += kNf4Group) {
    const int64_t end = std::min(blocks, begin + kNf4Group);
    float largest = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float magnitude = std::abs(absmax[i] - offset);
      if (magnitude > largest || std::isnan(magnitude)) largest = magnitude;
    }
    args.scales.data<float>()[begin / kNf4Group] = largest;
    const float factor = largest == 0 ? 0 : 1 / largest;
    for (int64_t i = begin; i < end; ++i) codes[i] = nf4_scale_code((absmax[i] - offset) * factor);
  }
}

void dequantize_nf4(const DequantizeNf4Args& args) {
  const auto* codes = static_cast<const uint8_t*>(args.codes.raw());
  const auto* absmax_codes = static_cast<const uint8_t*>(args.absmax_codes.raw());
  const Nf4Blocks& of = args.blocks;
  for (int64_t i = 0; i < args.out.dim(0); ++i) {
    const int64_t here = i / kNf4Block;
    const int64_t block = of.first + here / of.run * of.stride + here % of.run;
    const float absmax =
        nf4_absmax(absmax_codes[here], args.scales.data<float>()[block / kNf4Group],
                   *args.offset.data<float>());
    const int code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
    const float value = kNf4Levels[static_cast<size_t>(code)] * absmax;
    dispatch_floating(args.out.dtype(), [&](auto zero) {
      args.out.data<decltype(zero)>()[i] = static_cast<decltype(zero)>(value);
    });
  }
}

}  // namespace viaduct::reference
