// Frozen weights in other formats: what a tensor rank has is its part of the whole matrix, to the
// bit; bytes; blocks that a part would cut are refused.

#include "sharding/frozen_weights.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "support/instruction_set.h"
#include "support/op_testing.h"
#include "tensor/packing.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kOut = 192, kIn = 512;

/// The box of W [kOut, kIn] as a frozen parameter.
Parameter part_of(BaseFormat format, Shape begin, Shape size, bool transposed = false) {
  Parameter p;
  p.path = "part", p.shape = size, p.trained = false, p.multiplied = true, p.stored = format;
  const Shape logical = transposed ? Shape{kIn, kOut} : Shape{kOut, kIn};
  Part part = whole_part("W", logical, transposed);
  for (int dim = 0; dim < 2; ++dim) {
    part.box.begin[transposed ? 1 - dim : dim] = begin[dim];
    part.box.size[transposed ? 1 - dim : dim] = size[dim];
  }
  p.parts = {part};
  return p;
}

class FrozenWeightsTest : public testing::TestWithParam<BaseFormat> {
 protected:
  /// The matrix that is read of it.
  Tensor matrix_of(const Parameter& parameter, DType dtype) {
    FrozenWeights weights(context_, {&parameter});
    const DType stored = stored_dtype(*parameter.stored);
    Shape shape = parameter.shape;
    shape[1] /= elements_per_value(stored);
    const Tensor codes = host_tensor(stored, shape);
    weights.write(parameter, codes, [&](const ShardRun& run) {
      copy(context_, {flat_.slice(0, run.range.begin, run.range.size()), run.master});
    });
    return weights.matrix(parameter, codes, dtype);
  }

  std::unique_ptr<Device> device_ = make_cpu_device(2);
  OpTable ops_ = cpu_ops(test::instruction_set());
  OpContext context_{*device_, ops_};
  Tensor source_ = test::random_tensor(DType::f32, {kOut, kIn}, 5);
  Tensor flat_ = source_.view({kOut * kIn});
};

TEST_P(FrozenWeightsTest, PartsHaveTheBitsOfTheWhole) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor whole = matrix_of(part_of(GetParam(), {0, 0}, {kOut, kIn}), dtype);
    double far = 0;
    for (int64_t i = 0; i < whole.elements(); ++i)
      far = std::max(far, std::abs(test::element(whole, i) - test::element(source_, i)));
    EXPECT_GT(far, 0);
    EXPECT_LT(far, GetParam() == BaseFormat::nf4 ? 0.2 : 0.04);
    test::expect_same_bits(matrix_of(part_of(GetParam(), {64, 0}, {64, kIn}), dtype),
                           test::converted(whole.slice(0, 64, 64), dtype));
    test::expect_same_bits(matrix_of(part_of(GetParam(), {0, 128}, {kOut, 256}), dtype),
                           test::converted(whole.slice(1, 128, 256), dtype));
    test::expect_same_bits(matrix_of(part_of(GetParam(), {0, 0}, {kOut, kIn}, true), dtype), whole);
  }
}

TEST_P(FrozenWeightsTest, HaveTheBytesOfTheirFormat) {
  const Parameter parameter = part_of(GetParam(), {0, 0}, {kOut, kIn});
  const int64_t before = device_->memory().bytes_in_use, elements = kOut * kIn;
  const FrozenWeights weights(context_, {&parameter});
  const int64_t scales = device_->memory().bytes_in_use - before;
  const int64_t blocks = elements / 64;
  const int64_t expected = GetParam() == BaseFormat::nf4   ? blocks + 4 * (blocks / 256) + 4
                           : GetParam() == BaseFormat::fp8 ? 4 * elements / 128
                                                           : 0;
  EXPECT_GE(scales, expected);
  EXPECT_LE(scales, expected + expected / 4 + 256);  // alignment
}

INSTANTIATE_TEST_SUITE_P(Formats, FrozenWeightsTest,
                         testing::Values(BaseFormat::bf16, BaseFormat::fp8, BaseFormat::nf4),
                         [](const auto& info) {
                           return std::string(info.param == BaseFormat::bf16  ? "bf16"
                                              : info.param == BaseFormat::fp8 ? "fp8"
                                                                              : "nf4");
                         });

TEST(FrozenWeights, DoNotCutBlocks) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(test::instruction_set());
  const OpContext context{*device, ops};
  const auto refused = [&](BaseFormat format, Shape begin, Shape size) {
    const Parameter parameter = part_of(format, begin, size);
    EXPECT_THAT([&] { FrozenWeights(context, {&parameter}); },
                ThrowsMessage<ShapeError>(HasSubstr("cut blocks of")));
  };
  refused(BaseFormat::nf4, {0, 32}, {kOut, 64});
  refused(BaseFormat::nf4, {0, 0}, {kOut, 96});
  refused(BaseFormat::fp8, {0, 64}, {kOut, 128});
}

}  // namespace
}  // namespace viaduct
