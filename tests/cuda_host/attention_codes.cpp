// Attention of FP8 codes has no launches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/cuda/launch/cuda_launches.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::AttentionData;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(AttentionOnCuda, CodesOfFp8AreRefusedWithWhatThereIs) {
  const auto device = make_cpu_device(1);
  const OpTable table = cuda_ops_with_launches(CudaTarget::sm_90a);
  OpContext context{*device, table};
  AttentionData data({}, DType::bf16);
  data.q = host_tensor(DType::e4m3, data.q.shape());
  data.k = data.v = host_tensor(DType::e4m3, data.k.shape());
  data.problem.scales = host_tensor(DType::f32, {3});
  EXPECT_THAT([&] { attention_forward(context, data.forward()); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("attention_forward"), HasSubstr("bf16"),
                                               HasSubstr("fp8_dot_product_attention"))));
}

}  // namespace
}  // namespace viaduct
