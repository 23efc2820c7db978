#include "sharding/parameter_store.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"

namespace viaduct {
namespace {

class ParameterStoreTest : public testing::Test {
 protected:
  static Parameter make(const char* path, const Shape& shape, bool weight_gradient) {
    Parameter p;
    p.path = path;
    p.shape = shape;
    p.weight_gradient = weight_gradient;
    return p;
  }
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  OpTable ops_ = cpu_ops(CpuIsa::avx2);
  OpContext context_{*device_, ops_};
  Parameter matrix_ = make("matrix", {3, 5}, true), bias_ = make("bias", {3}, false);
  ParameterStore store_{
      *device_, precision_recipe("bf16_mixed"), {{&matrix_, &bias_}}, {}, self_groups()};
};

TEST_F(ParameterStoreTest, WeightsAreMastersRounded) {
  for (int i = 0; i < 15; ++i)
    store_.master(matrix_).data<float>()[i] = 1.0f + 0x1p-10f * static_cast<float>(i);
  for (int i = 0; i < 3; ++i) store_.master(bias_).data<float>()[i] = static_cast<float>(i);
  store_.publish_masters(context_);
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(store_.weight(matrix_).data<bfloat16>()[i].bits,
              bfloat16(store_.master(matrix_).data<float>()[i]).bits);
  }
  EXPECT_EQ(static_cast<float>(store_.weight(bias_).data<bfloat16>()[2]), 2.0f);
}

TEST_F(ParameterStoreTest, WeightsDoNotChangeWhileTheyAreInUse) {
  EXPECT_THROW(store_.acquire(matrix_, WeightUse::forward), ShapeError);  // nothing there yet
  store_.publish_masters(context_);
  const int64_t generation = store_.generation();
  {
    const AcquiredWeight weight(store_, matrix_, WeightUse::forward);
    EXPECT_THROW(store_.advance_generation(), ShapeError);
  }
  store_.advance_generation();
  EXPECT_EQ(store_.generation(), generation + 1);
  EXPECT_THROW(store_.acquire(matrix_, WeightUse::forward), ShapeError);  // stale
  store_.weights_written();
  const AcquiredWeight weight(store_, matrix_, WeightUse::forward);
}

TEST_F(ParameterStoreTest, FirstContributionOverwritesLaterOnesAdd) {
  for (int i = 0; i < 15; ++i) store_.main_gradient(matrix_).data<float>()[i] = 9;
  for (int i = 0; i < 3; ++i) store_.main_gradient(bias_).data<float>()[i] = 9;
  store_.begin_step(context_);
  EXPECT_EQ(store_.gradient(matrix_).mode, WriteMode::assign);
  EXPECT_THROW(store_.finish_gradients(context_), ShapeError);  // a contribution is open
  store_.done(matrix_);
  EXPECT_EQ(store_.gradient(matrix_).mode, WriteMode::accumulate);
  store_.done(matrix_);
  EXPECT_THROW(store_.done(matrix_), ShapeError);
  EXPECT_EQ(store_.gradient(bias_).mode, WriteMode::accumulate);
  EXPECT_EQ(store_.main_gradient(bias_).data<float>()[1], 0);  // its ops only add
  store_.done(bias_);
  store_.finish_gradients(context_);
  EXPECT_EQ(store_.main_gradient(matrix_).data<float>()[0], 9);  // written: left alone
  store_.begin_step(context_);
  store_.finish_gradients(context_);
  EXPECT_EQ(store_.main_gradient(matrix_).data<float>()[0], 0);  // nothing came: zero
}

}  // namespace
}  // namespace viaduct
