#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace viaduct {
namespace {

TEST(Tensor, SlicesAndViewsShareStorage) {
  Tensor t = host_tensor(DType::f32, {4, 6});
  for (int i = 0; i < 24; ++i) t.data<float>()[i] = static_cast<float>(i);
  Tensor columns = t.slice(1, 2, 3);
  EXPECT_FALSE(columns.is_contiguous());
  EXPECT_EQ(columns.stride(0), 6);
  EXPECT_EQ(columns.data<float>()[columns.stride(0)], 8.0f);
  Tensor heads = t.slice(1, 2, 4).view({4, 2, 2});  // split an inner dim of a strided view
  EXPECT_EQ(heads.stride(0), 6);
  EXPECT_EQ(heads.stride(1), 2);
  EXPECT_EQ(heads.select(1).data<float>()[2], 10.0f);
  EXPECT_EQ(t.view({24}).slice(0, 5, 1).data<float>()[0], 5.0f);
  EXPECT_EQ(t.view({2, 2, 3, 2}).stride(0), 12);
  EXPECT_THROW(columns.view({12}), ShapeError);
  EXPECT_THROW(t.view({5, 5}), ShapeError);
  EXPECT_THROW(t.slice(1, 5, 2), ShapeError);
  EXPECT_THROW(t.data<double>(), ShapeError);
}

TEST(Tensor, AViewOfNothingIsContiguous) {
  const Tensor heads = host_tensor(DType::f32, {0, 6}).slice(1, 2, 4).view({0, 2, 2});
  EXPECT_EQ(heads.stride(0), 4);
  EXPECT_EQ(heads.stride(-1), 1);
  EXPECT_TRUE(heads.is_contiguous());
}

TEST(Tensor, TransposedExchangesShapeAndStrides) {
  const Tensor t = host_tensor(DType::f32, {2, 3, 4});
  const Tensor turned = t.transposed(0, -1);
  EXPECT_EQ(turned.shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(turned.stride(0), 1);
  EXPECT_EQ(turned.stride(2), 12);
  EXPECT_EQ(turned.raw(), t.raw());
  EXPECT_FALSE(turned.is_contiguous());
  EXPECT_THROW(t.transposed(0, 3), ShapeError);
}

TEST(DType, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(bfloat16(1.0f + 0x1p-8f)), 1.0f);  // tie to even
  EXPECT_EQ(static_cast<float>(bfloat16(1.0f + 0x1.8p-7f)),
            1.0f + 0x1p-6f);  // tie to even, upwards
  EXPECT_EQ(static_cast<float>(bfloat16(3.0e38f * 1.2f)), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace viaduct
