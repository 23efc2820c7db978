// Forms of matrices: sizes, slices, and errors.

#include "tensor/operand.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const OperandForm kTiles{"tiles", Orientation::column_wise, {4, 8}};
const OperandForm kTransposed{
    kContractedLast, Orientation::column_wise, {}, DType::i8, ScaleForm{DType::f32, {1, 3}}};
const OperandForm kPerTensor{.element = DType::e4m3, .scales = ScaleForm{}};

Operand operand(const OperandForm& form, const Shape& shape) {
  return {form, DType::bf16, shape,
          host_tensor(form.element.value_or(DType::bf16), values_shape(form, shape)),
          form.scales ? host_tensor(form.scales->dtype, scales_shape(form, shape)) : Tensor()};
}

TEST(Operand, ATensorIsItsPlainForm) {
  const Tensor tensor = host_tensor(DType::f32, {5, 7});
  const Operand plain = tensor;
  EXPECT_TRUE(plain.form().plain());
  EXPECT_EQ(plain.tensor().raw(), tensor.raw());
  EXPECT_EQ(plain.bytes(), 5 * 7 * 4);
  EXPECT_EQ(describe(plain), "f32 [5, 7]");
  const Operand part = plain.slice(1, 2, 3);
  EXPECT_EQ(part.tensor().raw(), tensor.slice(1, 2, 3).raw());
  EXPECT_EQ(part.shape(), (Shape{5, 3}));
  EXPECT_FALSE(Operand());
  EXPECT_EQ(describe(Operand(Tensor())), "nothing");
}

TEST(Operand, ValuesAndScalesHaveTheShapesOfTheForm) {
  // Column-wise: the product contracts the 10 rows, and keeps the 9 columns.
  EXPECT_EQ(values_shape(kTiles, {10, 9}), (Shape{3, 2, 32}));
  EXPECT_EQ(values_shape(kTransposed, {10, 9}), (Shape{9, 10}));
  EXPECT_EQ(scales_shape(kTransposed, {10, 9}), (Shape{9, 4}));
  EXPECT_EQ(values_shape(kPerTensor, {10, 9}), (Shape{10, 9}));
  EXPECT_EQ(scales_shape(kPerTensor, {10, 9}), (Shape{1, 1}));
  const Operand x = operand(kTransposed, {10, 9});
  EXPECT_EQ(x.dtype(), DType::bf16);
  EXPECT_EQ(x.shape(), (Shape{10, 9}));
  EXPECT_EQ(x.bytes(), 90 + 9 * 4 * 4);
  EXPECT_EQ(describe(x), "bf16 [10, 9] as i8 contracted-last column-wise, f32 scales of 1x3");
  EXPECT_EQ(describe(kPerTensor), "e4m3 row-major row-wise, f32 scale of the whole");
  EXPECT_THAT([&] { x.tensor(); }, ThrowsMessage<ShapeError>(HasSubstr("expected a tensor")));
}

TEST(Operand, WrongPartsAreRefused) {
  const auto make = [](const OperandForm& form, const Tensor& values, const Tensor& scales) {
    return [=] { Operand(form, DType::bf16, {10, 9}, values, scales); };
  };
  const Tensor values = host_tensor(DType::i8, {9, 10}), scales = host_tensor(DType::f32, {9, 4});
  make(kTransposed, values, scales)();
  EXPECT_THAT(make(kTransposed, host_tensor(DType::i8, {10, 9}), scales),
              ThrowsMessage<ShapeError>(HasSubstr("expected values i8 [9, 10], got i8 [10, 9]")));
  EXPECT_THAT(make(kTransposed, host_tensor(DType::u8, {9, 10}), scales),
              ThrowsMessage<ShapeError>(HasSubstr("expected values i8")));
  EXPECT_THAT(make(kTransposed, values, Tensor()),
              ThrowsMessage<ShapeError>(HasSubstr("expected scales f32 [9, 4], got nothing")));
  EXPECT_THAT(make(kTiles, host_tensor(DType::bf16, {3, 2, 32}), scales),
              ThrowsMessage<ShapeError>(HasSubstr("expected no scales")));
  EXPECT_THAT([] { values_shape(kTiles, {3}); },
              ThrowsMessage<ShapeError>(HasSubstr("expected a matrix, got [3]")));
}

int64_t offset(const Tensor& part, const Tensor& whole) {
  return (part.offset_bytes() - whole.offset_bytes()) / dtype_bytes(whole.dtype());
}

TEST(Operand, SlicesAreOfWholeTiles) {
  const Operand x = operand(kTiles, {20, 15});
  const Operand columns = x.slice(1, 8, 5);  // kept: from the third row of tiles, two of them
  EXPECT_EQ(columns.shape(), (Shape{20, 5}));
  EXPECT_EQ(columns.values().shape(), (Shape{2, 3, 32}));
  EXPECT_EQ(offset(columns.values(), x.values()), 2 * 3 * 32);
  const Operand rows = x.slice(0, 8, 8);
  EXPECT_EQ(rows.shape(), (Shape{8, 15}));
  EXPECT_EQ(rows.values().shape(), (Shape{4, 1, 32}));
  EXPECT_EQ(offset(rows.values(), x.values()), 32);
  EXPECT_EQ(x.slice(0, 16, 4).values().shape(), (Shape{4, 1, 32}));  // the end of the matrix
  // Values of other rows share the last tile: a product would add them.
  EXPECT_THROW(x.slice(0, 8, 5), ShapeError);
  EXPECT_THAT([&] { x.slice(1, 6, 4); },
              ThrowsMessage<ShapeError>(HasSubstr("slice [6, 10) of dim 1 of bf16 [20, 15]")));
  EXPECT_THROW(x.slice(1, 12, 4), ShapeError);
}

TEST(Operand, SlicesTakeTheScalesOfTheirGroups) {
  const Operand x = operand(kTransposed, {10, 9});
  const Operand columns = x.slice(1, 2, 5);
  EXPECT_EQ(columns.values().shape(), (Shape{5, 10}));
  EXPECT_EQ(offset(columns.values(), x.values()), 20);
  EXPECT_EQ(columns.scales().shape(), (Shape{5, 4}));
  EXPECT_EQ(offset(columns.scales(), x.scales()), 8);
  const Operand rows = x.slice(0, 3, 6);
  EXPECT_EQ(rows.values().shape(), (Shape{9, 6}));
  EXPECT_EQ(rows.scales().shape(), (Shape{9, 2}));
  EXPECT_EQ(offset(rows.scales(), x.scales()), 1);
  EXPECT_THROW(x.slice(0, 2, 3), ShapeError);  // inside a group
  EXPECT_THROW(x.slice(0, 3, 4), ShapeError);
  const Operand whole = operand(kPerTensor, {10, 9}).slice(0, 1, 4);
  EXPECT_EQ(whole.values().shape(), (Shape{4, 9}));
  EXPECT_EQ(whole.scales().shape(), (Shape{1, 1}));
}

// Three matrices of 16 x 32 as NVFP4: each has its part of the values, scales and matrix scales.
TEST(Operand, AStackHasItsMembersOneAfterTheOther) {
  const OperandForm form{.element = DType::e2m1x2, .scales = ScaleForm{DType::e4m3, {1, 16}}};
  const Tensor values = host_tensor(DType::e2m1x2, {48, 16});
  const Tensor scales = host_tensor(DType::e4m3, {48, 2});
  const Tensor matrix_scales = host_tensor(DType::f32, {3});
  const Operand all = Operand::stack(3, form, DType::bf16, {16, 32}, values, scales, matrix_scales);
  EXPECT_EQ(all.count(), 3);
  EXPECT_EQ(all.shape(), (Shape{48, 32}));
  EXPECT_EQ(all.bytes(), 48 * 16 + 48 * 2 + 3 * 4);
  for (int64_t i = 0; i < 3; ++i) {
    const Operand one = all.member(i);
    EXPECT_EQ(one.count(), 1);
    EXPECT_EQ(one.shape(), (Shape{16, 32}));
    EXPECT_EQ(one.values().raw(), values.slice(0, 16 * i, 16).raw());
    EXPECT_EQ(one.scales().raw(), scales.slice(0, 16 * i, 16).raw());
    EXPECT_EQ(one.matrix_scale().raw(), matrix_scales.slice(0, i, 1).raw());
  }
  EXPECT_THROW((void)all.member(3), ShapeError);
  EXPECT_THROW((void)all.member(-1), ShapeError);
  EXPECT_THROW((void)all.slice(0, 16, 16), ShapeError);  // members are taken, not rows
}

TEST(Operand, AStackOfOtherSizesIsRefused) {
  const auto stack = [](int64_t count, const Shape& values, const Shape& scales) {
    return Operand::stack(count, kPerTensor, DType::bf16, {4, 8}, host_tensor(DType::e4m3, values),
                          host_tensor(DType::f32, scales));
  };
  EXPECT_NO_THROW(stack(2, {8, 8}, {2, 1}));
  EXPECT_THAT(
      [&] {
        stack(2, {9, 8}, {2, 1});
      },
      ThrowsMessage<ShapeError>(HasSubstr("stack of 2 operands bf16 [4, 8]")));
  EXPECT_THROW(stack(2, {8, 8}, {1, 1}), ShapeError);  // one scale for two
  EXPECT_THROW(stack(2, {10, 8}, {2, 1}), ShapeError);
  EXPECT_THROW(stack(0, {0, 8}, {0, 1}), ShapeError);
}

}  // namespace
}  // namespace viaduct
