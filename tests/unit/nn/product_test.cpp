// GEMMs on ops that read other forms, and these forms in the saved store.

#include "nn/product.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "nn/segment.h"
#include "support/op_testing.h"
#include "support/scaled_device.h"
#include "support/scaled_ops.h"
#include "unit/nn/context_parallel_ranks.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::random_tensor;
using test::ScaledValues;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ProductTest : public testing::Test {
 protected:
  RankContext context(const OpTable& ops) {
    return {.ops = {*device_, ops}, .weights = weights_, .groups = groups_, .settings = settings_};
  }
  std::unique_ptr<Device> device_ = test::make_scaled_device(1);
  test::NoWeights weights_;
  ParallelGroups groups_ = self_groups();
  LayerSettings settings_{.precision = precision_recipe("bf16_mixed")};
  OpTable plain_ = cpu_ops(CpuIsa::avx2);
  OpTable exact_ = test::scaled_ops(ScaledValues::exact, CpuIsa::avx2);
  OpTable mxfp8_ = test::scaled_ops(ScaledValues::mxfp8, CpuIsa::avx2);
};

TEST_F(ProductTest, MakesTheFormsThatTheOpsRead) {
  const Tensor x = random_tensor(DType::bf16, {21, 30}, 1),
               w = random_tensor(DType::bf16, {9, 30}, 2);
  const Tensor y = host_tensor(DType::bf16, {21, 9}), expected = host_tensor(DType::bf16, {21, 9});
  RankContext plain = context(plain_), scaled = context(exact_);
  run_product(plain.ops, {GemmForm::forward, x, w, expected});
  run_product(scaled.ops, {GemmForm::forward, x, w, y});
  expect_same_bits(y, expected);
  EXPECT_THAT(
      [&] {
        gemm(scaled.ops, {GemmForm::forward, x, w, y});
      },
      ThrowsMessage<ShapeError>(HasSubstr("scaled reads a in the form contracted-last "
                                          "row-wise, f32 scales of 1x8, got bf16 [21, 30]")));
}

TEST_F(ProductTest, RunsOfColumnsAreReadInTheFormMadeForThem) {
  const Tensor x = random_tensor(DType::bf16, {21, 30}, 1),
               w = random_tensor(DType::bf16, {12, 30}, 2);
  const Tensor y = host_tensor(DType::bf16, {21, 6}), expected = host_tensor(DType::bf16, {21, 6});
  RankContext plain = context(plain_), scaled = context(exact_);
  GemmRequest request{GemmForm::forward, DType::bf16};
  request.n = 12, request.k = 30, request.run = 6;  // begins inside a panel of four
  const OperandForm form = gemm_operand_forms(exact_, request).b;
  EXPECT_EQ(form.layout, kContractedLast);
  const Operand runs = operand_in(scaled.ops, w, form, MemoryTag::weights);
  run_product(scaled.ops, {GemmForm::forward, x, runs.slice(0, 6, 6), y});
  run_product(plain.ops, {GemmForm::forward, x, w.slice(0, 6, 6), expected});
  expect_same_bits(y, expected);
  // Runs of all columns are read as panels, and in no other form.
  const Tensor all = host_tensor(DType::bf16, {21, 12});
  EXPECT_THAT(
      [&] {
        run_product(scaled.ops, {GemmForm::forward, x, runs, all});
      },
      ThrowsMessage<ShapeError>(HasSubstr("reads b in the form panels of 4x8 row-wise")));
}

TEST_F(ProductTest, OperandsWaitInTheFormOfTheirWeightGradient) {
  RankContext with = context(mxfp8_);
  const GemmForms forms = waiting_forms(with, 9, 30);
  EXPECT_EQ(forms.b.orientation, Orientation::column_wise);
  const Tensor x = random_tensor(DType::bf16, {64, 30}, 1);
  SavedStore saved;
  const int owner = 0;
  keep_operand(with, saved, &owner, "x", x, forms.b);
  // One byte an element and one for 32 of them; the tensor itself is not held.
  EXPECT_EQ(saved.bytes_by_unit().at(""), 64 * 30 + 2 * 30);
  const Operand back = take_operand(with, saved, &owner, "x", forms.b);
  EXPECT_EQ(saved.entries(), 0u);
  EXPECT_EQ(back.form(), forms.b);
  EXPECT_EQ(back.shape(), x.shape());
  EXPECT_EQ(back.dtype(), DType::bf16);
  EXPECT_THROW(
      keep_operand(with, saved, &owner, "x", random_tensor(DType::f32, {64, 30}, 1), forms.b),
      ShapeError);
  SavedStore nothing(false);
  keep_operand(with, nothing, &owner, "x", x, forms.b);
  EXPECT_EQ(nothing.entries(), 0u);
}

TEST_F(ProductTest, TransposedOnesComeBackAsTheyWere) {
  RankContext with = context(exact_), without = context(plain_);
  const GemmForms forms = waiting_forms(with, 9, 30);
  const Tensor x = random_tensor(DType::bf16, {20, 30}, 1),
               dy = random_tensor(DType::bf16, {20, 9}, 2);
  const Tensor gradient = host_tensor(DType::f32, {9, 30}),
               expected = host_tensor(DType::f32, {9, 30});
  SavedStore saved;
  const int owner = 0;
  keep_operand(with, saved, &owner, "x", x, forms.b);
  const Operand back = take_operand(with, saved, &owner, "x", forms.b);
  EXPECT_EQ(back.values().shape(), (Shape{30, 20}));
  EXPECT_EQ(back.shape(), (Shape{20, 30}));
  run_product(with.ops, {GemmForm::weight_gradient, dy, back, gradient});
  run_product(without.ops, {GemmForm::weight_gradient, dy, x, expected});
  expect_same_bits(gradient, expected);
  // The cpu reads tensors, so they are kept unchanged.
  EXPECT_EQ(waiting_forms(without, 9, 30), GemmForms{});
  keep_operand(without, saved, &owner, "x", x, {});
  EXPECT_EQ(take_operand(without, saved, &owner, "x", {}).tensor().raw(), x.raw());
}

TEST_F(ProductTest, SetsCarryOperands) {
  RankContext with = context(mxfp8_);
  const Tensor x = random_tensor(DType::bf16, {32, 32}, 1);
  const OperandForm form = waiting_forms(with, 32, 32).a;
  TensorSet set(kHidden, x);
  set.set("quantized", operand_in(with.ops, x, form, MemoryTag::activations));
  EXPECT_EQ(set.get(kHidden).raw(), x.raw());
  EXPECT_EQ(set.operand("quantized").form(), form);
  EXPECT_THAT([&] { set.get("quantized"); },
              ThrowsMessage<ShapeError>(HasSubstr("e4m3 row-major")));
  EXPECT_THAT([&] { set.operand("logits"); },
              ThrowsMessage<ShapeError>(HasSubstr("no \"logits\"")));
}

}  // namespace
}  // namespace viaduct
