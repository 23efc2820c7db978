#include "nn/rotary_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

// Equal to transformers 4.56.2 (modeling_rope_utils.py) to the bit: at position 131,071 the last
// bit of a frequency turns a query by up to 1e-2.
TEST(RotaryTable, YarnFrequenciesAreThoseOfTransformers) {
  const std::vector<float> expected{
      0x1.0p+0f,       0x1.53c38cp-1f,  0x1.c2ef78p-2f,  0x1.2b3dc6p-2f,  0x1.8d276p-3f,
      0x1.078d4p-3f,   0x1.5dc95ap-4f,  0x1.d03ccep-5f,  0x1.12e89p-5f,   0x1.40d954p-6f,
      0x1.6f6bc4p-7f,  0x1.9a1e96p-8f,  0x1.b96c64p-9f,  0x1.c14e04p-10f, 0x1.9f159ap-11f,
      0x1.365de4p-12f, 0x1.72ba42p-15f, 0x1.ec07d4p-16f, 0x1.46831ap-16f, 0x1.b15902p-17f,
      0x1.1f91fp-17f,  0x1.7da9e8p-18f, 0x1.fa8b86p-19f, 0x1.5024d6p-19f, 0x1.be2188p-20f,
      0x1.280d96p-20f, 0x1.88ec2p-21f,  0x1.04be68p-21f, 0x1.5a0f4ep-22f, 0x1.cb4a9ap-23f,
      0x1.30c94ep-23f, 0x1.94836p-24f};
  EXPECT_EQ(rotary_frequencies({.width = 64,
                                .base = 500000,
                                .scaling = RopeScalingKind::yarn,
                                .factor = 32,
                                .original_max_positions = 4096}),
            expected);
}

TEST(RotaryTable, Llama3FrequenciesAreThoseOfTransformers) {
  const std::vector<float> expected{
      0x1.0p+0f,       0x1.53c38cp-1f,  0x1.c2ef78p-2f,  0x1.2b3dc6p-2f,  0x1.8d276p-3f,
      0x1.078d4p-3f,   0x1.5dc95ap-4f,  0x1.d03ccep-5f,  0x1.34119p-5f,   0x1.98de92p-6f,
      0x1.0f5386p-6f,  0x1.681adap-7f,  0x1.ddee9ep-8f,  0x1.3d2804p-8f,  0x1.a4ee4p-9f,
      0x1.524f36p-10f, 0x1.c26c4p-12f,  0x1.9731eep-14f, 0x1.46831ap-16f, 0x1.b15902p-17f,
      0x1.1f91fp-17f,  0x1.7da9e8p-18f, 0x1.fa8b86p-19f, 0x1.5024d6p-19f, 0x1.be2188p-20f,
      0x1.280d96p-20f, 0x1.88ec2p-21f,  0x1.04be68p-21f, 0x1.5a0f4ep-22f, 0x1.cb4a9ap-23f,
      0x1.30c94ep-23f, 0x1.94836p-24f};
  EXPECT_EQ(rotary_frequencies({.width = 64,
                                .base = 500000,
                                .scaling = RopeScalingKind::llama3,
                                .factor = 32,
                                .original_max_positions = 8192}),
            expected);
}

TEST(RotaryTable, LongRopeHasAListForShortAndOneForLongRows) {
  const RotarySpec spec{.width = 4,
                        .scaling = RopeScalingKind::longrope,
                        .original_max_positions = 16,
                        .short_factors = {1, 2},
                        .long_factors = {4, 8}};
  const std::vector<float> shorter{1, 1.0f / 200}, longer{0.25f, 1.0f / 800};
  EXPECT_EQ(rotary_frequencies(spec), shorter);
  EXPECT_EQ(rotary_frequencies(spec, 16), shorter);
  EXPECT_EQ(rotary_frequencies(spec, 17), longer);
  EXPECT_THROW(rotary_frequencies({.width = 8, .scaling = RopeScalingKind::longrope}), ShapeError);
}

TEST(RotaryTable, TemperaturesWithoutRotaryPositionsCountFromOne) {
  const AttentionTemperature rotary{0.5, 4}, plain = temperature_without_rotary(0.5, 4);
  EXPECT_EQ(rotary.at(3), 1);
  EXPECT_EQ(rotary.at(4), 1 + 0.5 * std::log(2.0));
  EXPECT_EQ(plain.at(2), 1);
  EXPECT_EQ(plain.at(3), 1 + 0.5 * std::log(2.0));
  EXPECT_EQ(temperature_without_rotary(0, 4).at(100), 1);
  // The table has them in the place of a rotation.
  const auto device = make_cpu_device(1);
  const RotaryTable table = make_temperature_table(*device, plain, 4, 4, DType::f64);
  const double step = plain.at(3);
  EXPECT_EQ(test::values(table.cos), (std::vector<double>{1, 1, 1, 1, 1, 1, step, step}));
  EXPECT_EQ(test::values(table.sin), std::vector<double>(8));
  EXPECT_THROW(make_temperature_table(*device, plain, 3, 4, DType::f64), ShapeError);
}

}  // namespace
}  // namespace viaduct
