// model.attention_backend=auto: cuDNN's attention on newer GPUs, where it computes the model's.

#include "run/attention_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/run_config.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

RunSetup planned(std::optional<CudaTarget> target, const Overrides& more) {
  RunConfig defaults;
  defaults.cuda_target = target;
  return prepare_run(load_run_config(
      {}, tiny_run() + Overrides{"mixed_precision=bf16_mixed"} + more, std::move(defaults)));
}

AttentionBackend chosen(const RunSetup& setup) {
  const AttentionBackend backend = setup.config.model.attention_backend.value();
  EXPECT_EQ(setup.model.library_attention, backend == AttentionBackend::fused);
  return backend;
}

TEST(AttentionChoice, IsCudnnFromHopperOn) {
  for (const CudaTarget target : kCudaTargets) {
    SCOPED_TRACE(cuda_target_name(target));
    const RunSetup setup = planned(target, {});
    EXPECT_EQ(chosen(setup),
              target < CudaTarget::sm_90a ? AttentionBackend::flash : AttentionBackend::fused);
    EXPECT_THAT(setup.notes, Not(Contains(HasSubstr("attention_backend"))));
  }
  EXPECT_EQ(chosen(planned({}, {})), AttentionBackend::flash) << "on the cpu";
  EXPECT_EQ(chosen(planned(CudaTarget::sm_90a, {"model.attention_backend=flash"})),
            AttentionBackend::flash);
  EXPECT_EQ(chosen(planned(CudaTarget::sm_90a, {"model.attention_backend=auto"})),
            AttentionBackend::fused);
}

TEST(AttentionChoice, IsOursWithTheReasonWhereCudnnComputesNothing) {
  struct Case {
    Overrides settings;
    std::string reason;
  };
  for (const Case& c : {
           Case{{"mixed_precision=fp32"}, "mixed_precision.recipe = fp32 are wider"},
           Case{{"model.attention_dropout=0.1"}, "no attention with model.attention_dropout"},
           Case{{"model.attn_logit_softcapping=30"}, "with model.attn_logit_softcapping"},
           Case{{"model.window_size=8"}, "with model.window_size on every layer"},
           Case{{"model.kv_channels=12"}, "with heads of 12"},
           Case{{"model.kv_channels=136"}, "with heads of 136"},
           Case{{"model.seq_length=65536"},
                "rows of 65536 tokens would need 8 GiB of workspace, at most 4 are taken"},
           Case{{"mixed_precision=bf16_with_fp8_current_scaling_mixed",
                 "mixed_precision.fp8_dot_product_attention=true"},
                "with mixed_precision.fp8_dot_product_attention"},
       }) {
    SCOPED_TRACE(c.reason);
    const RunSetup setup = planned(CudaTarget::sm_90a, c.settings);
    EXPECT_EQ(chosen(setup), AttentionBackend::flash);
    EXPECT_THAT(setup.notes,
                Contains(testing::AllOf(HasSubstr("model.attention_backend: auto is flash here: "),
                                        HasSubstr(c.reason))));
  }
  EXPECT_THAT(planned(CudaTarget::sm_80, {"model.window_size=8"}).notes,
              Not(Contains(HasSubstr("attention_backend"))))
      << "flash is what auto means there";
}

}  // namespace
}  // namespace viaduct
