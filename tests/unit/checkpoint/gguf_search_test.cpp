// Blocks of GGUF files from their numbers, and the search for these.

#include "checkpoint/gguf_search.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.h"

namespace viaduct {
namespace {

using Type = GgufTensorType;

constexpr Type kSearched[] = {Type::q4_0, Type::q4_1, Type::q5_0, Type::q5_1,
                              Type::q4_k, Type::q5_k, Type::q6_k};

std::vector<float> decoded(Type type, const GgufBlock& block) {
  const GgufType& known = gguf_type(type);
  std::vector<std::byte> bytes(static_cast<size_t>(known.bytes));
  encode_gguf_block(type, block, bytes.data());
  std::vector<float> values(static_cast<size_t>(known.block));
  decode_gguf_elements(type, bytes.data(), 0, known.block, values.data());
  return values;
}

std::vector<float> searched(Type type, const std::vector<float>& values) {
  return decoded(type, search_gguf_block(gguf_block_form(type), values));
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += difference * difference;
  }
  return squares;
}

/// The distance of rounding to nearest, where each group's values just fill the range of its codes
/// and no scale is rounded.
double filling_distance(Type type, const std::vector<float>& values) {
  const GgufBlockForm form = gguf_block_form(type);
  const size_t size = values.size() / static_cast<size_t>(form.groups);
  double squares = 0;
  for (size_t begin = 0; begin < values.size(); begin += size) {
    double least = 0, largest = 0;
    for (size_t i = begin; i < begin + size; ++i) {
      const double value = values[i];
      if (i == begin || value < least) least = value;
      if (i == begin || value > largest) largest = value;
    }
    double scale = (largest - least) / form.codes.largest, offset = least;
    if (form.minimum_sign == 0) {
      scale = (-least > largest ? least : largest) / form.codes.least;
      offset = 0;
    }
    for (size_t i = begin; i < begin + size && scale != 0; ++i) {
      const double code = std::clamp<double>(std::round((values[i] - offset) / scale),
                                             form.codes.least, form.codes.largest);
      const double difference = values[i] - (scale * code + offset);
      squares += difference * difference;
    }
  }
  return squares;
}

/// About normally distributed.
std::vector<float> weights(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const uint32_t bits : philox4x32(seed, i, 0))
      sum += static_cast<float>(bits) * 0x1p-32f - 0.5f;
    values[i] = 0.03f * sum;
  }
  return values;
}

TEST(GgufBlocksEncoding, EveryNumberHasItsPlace) {
  for (const Type type : {Type::q8_0, Type::q4_0, Type::q4_1, Type::q5_0, Type::q5_1, Type::q2_k,
                          Type::q3_k, Type::q4_k, Type::q5_k, Type::q6_k}) {
    const GgufBlockForm form = gguf_block_form(type);
    uint64_t drawn = 0;
    const auto any = [&](GgufBlockForm::Range range) {
      const uint32_t count = static_cast<uint32_t>(range.largest - range.least + 1);
      return static_cast<int16_t>(
          range.least +
          static_cast<int>(philox4x32(static_cast<uint64_t>(type), drawn++, 0)[0] % count));
    };
    GgufBlock block;
    block.scale = static_cast<float16>(0.0371f);
    block.minimum = static_cast<float16>(-1.7f);
    for (int g = 0; g < form.groups; ++g) {
      block.scales[g] = any(form.scales);
      block.minimums[g] = any(form.minimums);
    }
    for (int i = 0; i < form.elements; ++i) block.codes[i] = any(form.codes);
    const std::vector<float> values = decoded(type, block);
    const int size = form.elements / form.groups;
    for (int i = 0; i < form.elements; ++i) {
      const int g = i / size;
      const float scale = static_cast<float>(block.scale) *
                          static_cast<float>(form.scales.largest > 0 ? block.scales[g] : 1);
      const float minimum = static_cast<float>(block.minimum) *
                            static_cast<float>(form.minimums.largest > 0 ? block.minimums[g] : 1);
      const float product = scale * static_cast<float>(block.codes[i]);
      const float expected =
          form.minimum_sign == 0 ? product : product + form.minimum_sign * minimum;
      ASSERT_EQ(values[static_cast<size_t>(i)], expected) << gguf_type_name(type) << " " << i;
    }
  }
}

TEST(GgufBlocksEncoding, RangesAreThoseOfTheBits) {
  const auto ranges = [](Type type) {
    const GgufBlockForm form = gguf_block_form(type);
    return std::vector<int>{form.groups,       form.codes.least,    form.codes.largest,
                            form.scales.least, form.scales.largest, form.minimums.largest};
  };
  EXPECT_EQ(ranges(Type::q4_0), (std::vector<int>{1, -8, 7, 0, 0, 0}));
  EXPECT_EQ(ranges(Type::q5_1), (std::vector<int>{1, 0, 31, 0, 0, 0}));
  EXPECT_EQ(ranges(Type::q8_0), (std::vector<int>{1, -128, 127, 0, 0, 0}));
  EXPECT_EQ(ranges(Type::q4_k), (std::vector<int>{8, 0, 15, 0, 63, 63}));
  EXPECT_EQ(ranges(Type::q6_k), (std::vector<int>{16, -32, 31, -128, 127, 0}));
}

TEST(GgufSearch, IsNearerThanFillingTheRangeOfCodes) {
  for (const Type type : kSearched) {
    const auto size = static_cast<size_t>(gguf_type(type).block);
    double found = 0, filling = 0;
    for (uint64_t seed = 0; seed < 32; ++seed) {
      std::vector<float> values = weights(size, seed);
      if (seed % 4 == 0) values[seed] *= 8;
      const double block = distance(values, searched(type, values));
      // The block's scale is rounded, and the groups' to integers.
      EXPECT_LT(block, 1.1 * filling_distance(type, values)) << gguf_type_name(type) << " " << seed;
      found += block;
      filling += filling_distance(type, values);
    }
    EXPECT_LT(found, 0.97 * filling) << gguf_type_name(type);
  }
}

// What least squares find is a fixed point: values of a block come back as they are.
TEST(GgufSearch, ValuesThatABlockHoldsAreFound) {
  for (const Type type : {Type::q4_0, Type::q4_1, Type::q5_0, Type::q5_1}) {
    const GgufBlockForm form = gguf_block_form(type);
    GgufBlock block;
    block.scale = static_cast<float16>(0.125f);
    block.minimum = static_cast<float16>(-0.5f);
    for (int i = 0; i < form.elements; ++i)
      block.codes[i] =
          static_cast<int16_t>(form.codes.least + i % (form.codes.largest - form.codes.least + 1));
    const std::vector<float> values = decoded(type, block);
    EXPECT_EQ(searched(type, values), values) << gguf_type_name(type);
  }
}

TEST(GgufSearch, ZerosStayZeros) {
  for (const Type type : kSearched) {
    const std::vector<float> zeros(static_cast<size_t>(gguf_type(type).block));
    EXPECT_EQ(searched(type, zeros), zeros) << gguf_type_name(type);
  }
}

TEST(GgufSearch, ConstantsAreNearlyExact) {
  for (const Type type : kSearched) {
    for (const float constant : {0.037f, -0.037f, 3.0f, -1e-3f, 60000.0f}) {
      const std::vector<float> values(static_cast<size_t>(gguf_type(type).block), constant);
      for (const float value : searched(type, values))
        ASSERT_NEAR(value, constant, std::fabs(constant) * 2e-3f) << gguf_type_name(type);
    }
  }
}

TEST(GgufSearch, AnOutlierIsKept) {
  for (const Type type : kSearched) {
    std::vector<float> values = weights(static_cast<size_t>(gguf_type(type).block), 5);
    for (const float outlier : {2.5f, -2.5f}) {
      values[11] = outlier;
      const std::vector<float> found = searched(type, values);
      EXPECT_NEAR(found[11], outlier, 0.05f) << gguf_type_name(type);
      EXPECT_LT(distance(values, found), 1.1 * filling_distance(type, values))
          << gguf_type_name(type);
    }
  }
}

// Scales are FP16: what is below its numbers becomes zero, and nothing becomes larger than it was.
TEST(GgufSearch, SubnormalsDoNotGrow) {
  for (const Type type : kSearched) {
    for (const float magnitude : {1e-6f, 1e-8f, 1e-30f, std::numeric_limits<float>::denorm_min()}) {
      std::vector<float> values = weights(static_cast<size_t>(gguf_type(type).block), 9);
      for (float& value : values) value = value / 0.06f * magnitude;
      const std::vector<float> found = searched(type, values);
      EXPECT_LE(distance(values, found),
                distance(values, std::vector<float>(values.size())) * (1 + 1e-6))
          << gguf_type_name(type) << " " << magnitude;
    }
  }
}

}  // namespace
}  // namespace viaduct
