// A block is described by data, which both directions read: where its bits are, and what they mean
// (GgufBlock has the formula).

#include "tensor/gguf_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace viaduct {
namespace {

/// Small integers in the bytes of a block. They come in runs of consecutive bytes; `shared` runs
/// are in the same bytes, `spacing` bits apart (or `skip` bytes further each).
struct Bits {
  int width = 0;   // 0: there are none
  int offset = 0;  // of the first byte
  int run = 1;
  int shared = 1;
  int spacing = 0;
  int first = 0;  // lowest bit of the first run
  int skip = 0;
};

/// Integers of low and high bits, less `zero`. Those of 8 bits have a sign.
struct Integers {
  Bits low, high;
  int zero = 0;

  bool any() const { return low.width > 0; }
};

struct BlockLayout {
  GgufTensorType type;
  Integers codes;
  int scale = 0;     // offset of an FP16 number
  int minimum = -1;  // the same; -1: there is none
  int groups = 1;
  Integers scales, minimums;     // of the groups
  bool adds_minimum = false;     // else it is subtracted
  bool is_microscaling = false;  // an E8M0 scale, and E2M1 codes
};

// Scales and minimums of 8 groups in 12 bytes from byte 4 on, 6 bits each: of the first four groups
// in one byte; of the others the low half in a byte that both share, and the rest above the former.
constexpr Integers kScalesOf6Bits{{4, 4, 4, 2, 0, 0, 8}, {2, 4, 4, 2, 2, 4}};
constexpr Integers kMinimumsOf6Bits{{4, 8, 4, 2, 4, 0, 4}, {2, 8, 4, 2, 2, 4}};

using Type = GgufTensorType;
constexpr BlockLayout kLayouts[] = {
    {Type::q4_0, {{4, 2, 16, 2, 4}, {}, 8}},
    {Type::q4_1, {{4, 4, 16, 2, 4}}, 0, 2, 1, {}, {}, true},
    {Type::q5_0, {{4, 6, 16, 2, 4}, {1, 2, 1, 8, 1}, 16}},
    {Type::q5_1, {{4, 8, 16, 2, 4}, {1, 4, 1, 8, 1}}, 0, 2, 1, {}, {}, true},
    {Type::q8_0, {{8, 2, 32}}},
    {Type::q2_k, {{2, 16, 32, 4, 2}}, 80, 82, 16, {{4, 0, 16}}, {{4, 0, 16, 1, 0, 4}}},
    {Type::q3_k,
     {{2, 32, 32, 4, 2}, {1, 0, 32, 8, 1}, 4},
     108,
     -1,
     16,
     {{4, 96, 8, 2, 4}, {2, 104, 4, 4, 2}, 32}},
    {Type::q4_k, {{4, 16, 32, 2, 4}}, 0, 2, 8, kScalesOf6Bits, kMinimumsOf6Bits},
    {Type::q5_k, {{4, 48, 32, 2, 4}, {1, 16, 32, 8, 1}}, 0, 2, 8, kScalesOf6Bits, kMinimumsOf6Bits},
    {Type::q6_k, {{4, 0, 64, 2, 4}, {2, 128, 32, 4, 2}, 32}, 208, -1, 16, {{8, 192, 16}}},
    {Type::mxfp4, {{4, 1, 16, 2, 4}}, 0, -1, 1, {}, {}, false, true},
};

// E2M1's values doubled, as MXFP4's scales are halved: OCP Microscaling Formats 1.0, section 5.3.3.
// ggml has no negative zero here.
constexpr float kDoubledE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

const BlockLayout& layout_of(GgufTensorType type) {
  for (const BlockLayout& layout : kLayouts)
    if (layout.type == type) return layout;
  return kLayouts[0];  // callers have a quantized type
}

/// Adds the bits of a run to `to`, from bit `above` on. A run of known length becomes vector code.
template <int kRun>
void unpack_run(const uint8_t* from, int shift, int mask, int above, uint8_t* to) {
  for (int i = 0; i < kRun; ++i) to[i] |= static_cast<uint8_t>((from[i] >> shift & mask) << above);
}

/// Adds the bits of `count` integers, a multiple of their run.
void unpack(const Bits& bits, const uint8_t* block, int count, int above, uint8_t* to) {
  const int mask = (1 << bits.width) - 1;
  for (int number = 0; number * bits.run < count; ++number, to += bits.run) {
    const int group = number / bits.shared, place = number % bits.shared;
    const uint8_t* from = block + bits.offset + group * bits.run + place * bits.skip;
    const int shift = bits.first + place * bits.spacing;
    switch (bits.run) {
      case 16:
        unpack_run<16>(from, shift, mask, above, to);
        break;
      case 32:
        unpack_run<32>(from, shift, mask, above, to);
        break;
      case 64:
        unpack_run<64>(from, shift, mask, above, to);
        break;
      default:
        for (int i = 0; i < bits.run; ++i) unpack_run<1>(from + i, shift, mask, above, to + i);
    }
  }
}

void unpack(const Integers& integers, const uint8_t* block, int count, int8_t* to) {
  uint8_t bits[kLargestGgufBlock];
  std::fill_n(bits, count, uint8_t{0});
  unpack(integers.low, block, count, 0, bits);
  if (integers.high.width > 0) unpack(integers.high, block, count, integers.low.width, bits);
  const int zero = integers.zero;
  for (int i = 0; i < count; ++i) to[i] = static_cast<int8_t>(bits[i] - zero);
}

/// Where `unpack` reads them, less the zero that is added: the bits from `above` on of each
/// integer.
void pack(const Bits& bits, int zero, const int16_t* from, int count, int above, uint8_t* block) {
  const int mask = (1 << bits.width) - 1;
  for (int number = 0; number < count; ++number) {
    const int run = number / bits.run, group = run / bits.shared, place = run % bits.shared;
    uint8_t& to = block[bits.offset + group * bits.run + place * bits.skip + number % bits.run];
    const int shift = bits.first + place * bits.spacing;
    to = static_cast<uint8_t>(to | ((from[number] + zero) >> above & mask) << shift);
  }
}

void pack(const Integers& integers, const int16_t* from, int count, uint8_t* block) {
  if (!integers.any()) return;
  pack(integers.low, integers.zero, from, count, 0, block);
  if (integers.high.width > 0)
    pack(integers.high, integers.zero, from, count, integers.low.width, block);
}

GgufBlockForm::Range range_of(const Integers& integers) {
  if (!integers.any()) return {};
  const int width = integers.low.width + integers.high.width;
  const int zero = width == 8 ? 128 : integers.zero;
  return {-zero, (1 << width) - 1 - zero};
}

/// The values of a group of codes.
template <int kSize>
void scale_group(const int8_t* codes, float step, float minimum, const BlockLayout& layout,
                 float* to) {
  if (layout.minimum < 0) {
    for (int i = 0; i < kSize; ++i) to[i] = step * static_cast<float>(codes[i]);
  } else if (layout.adds_minimum) {
    for (int i = 0; i < kSize; ++i) to[i] = step * static_cast<float>(codes[i]) + minimum;
  } else {
    for (int i = 0; i < kSize; ++i) to[i] = step * static_cast<float>(codes[i]) - minimum;
  }
}

float half_at(const uint8_t* bytes) {
  float16 value;
  std::memcpy(&value, bytes, sizeof(value));
  return static_cast<float>(value);
}

/// Half of 2^(exponent - 127).
float halved_power(uint8_t exponent) {
  const uint32_t bits =
      exponent < 2 ? uint32_t{0x00200000} << exponent : uint32_t{exponent - 1u} << 23;
  return std::bit_cast<float>(bits);
}

void decode(const BlockLayout& layout, int elements, const uint8_t* block, float* to) {
  int8_t codes[kLargestGgufBlock], scales[kMostGgufGroups] = {}, minimums[kMostGgufGroups] = {};
  unpack(layout.codes, block, elements, codes);
  if (layout.is_microscaling) {
    const float scale = halved_power(block[layout.scale]);
    for (int i = 0; i < elements; ++i) to[i] = scale * kDoubledE2M1[codes[i]];
    return;
  }
  if (layout.scales.any()) unpack(layout.scales, block, layout.groups, scales);
  if (layout.minimums.any()) unpack(layout.minimums, block, layout.groups, minimums);
  const float scale = half_at(block + layout.scale);
  const float minimum = layout.minimum >= 0 ? half_at(block + layout.minimum) : 0;
  const int size = elements / layout.groups;  // 16 or 32
  for (int group = 0; group < layout.groups; ++group) {
    const float step = layout.scales.any() ? scale * static_cast<float>(scales[group]) : scale;
    const float less =
        layout.minimums.any() ? minimum * static_cast<float>(minimums[group]) : minimum;
    if (size == 16) {
      scale_group<16>(codes + group * size, step, less, layout, to + group * size);
    } else {
      scale_group<32>(codes + group * size, step, less, layout, to + group * size);
    }
  }
}

}  // namespace

GgufBlockForm gguf_block_form(GgufTensorType type) {
  const BlockLayout& layout = layout_of(type);
  const float sign = layout.minimum < 0 ? 0.f : layout.adds_minimum ? 1.f : -1.f;
  return {static_cast<int>(gguf_type(type).block),
          layout.groups,
          range_of(layout.codes),
          range_of(layout.scales),
          range_of(layout.minimums),
          sign};
}

void encode_gguf_block(GgufTensorType type, const GgufBlock& block, std::byte* to) {
  const BlockLayout& layout = layout_of(type);
  const GgufType& known = gguf_type(type);
  auto* bytes = reinterpret_cast<uint8_t*>(to);
  std::fill_n(bytes, known.bytes, uint8_t{0});
  std::memcpy(bytes + layout.scale, &block.scale, sizeof(block.scale));
  if (layout.minimum >= 0)
    std::memcpy(bytes + layout.minimum, &block.minimum, sizeof(block.minimum));
  pack(layout.codes, block.codes, static_cast<int>(known.block), bytes);
  pack(layout.scales, block.scales, layout.groups, bytes);
  pack(layout.minimums, block.minimums, layout.groups, bytes);
}

void decode_gguf_elements(GgufTensorType type, const std::byte* blocks, int64_t begin, int64_t end,
                          float* to) {
  const BlockLayout& layout = layout_of(type);
  const GgufType& known = gguf_type(type);
  const auto elements = static_cast<int>(known.block);
  const auto* bytes = reinterpret_cast<const uint8_t*>(blocks);
  float values[kLargestGgufBlock];
  while (begin < end) {
    const int64_t number = begin / elements, first = begin % elements;
    const int64_t count = std::min(elements - first, end - begin);
    const bool whole = count == elements;
    decode(layout, elements, bytes + number * known.bytes, whole ? to : values);
    if (!whole) std::copy_n(values + first, count, to);
    begin += count;
    to += count;
  }
}

}  // namespace viaduct
