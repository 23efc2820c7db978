// Attention by cuDNN, on its double: the results of our graphs and launches, calls in parts, and
// errors.

#include <gmock/gmock.h>

#include "cuda_host/cudnn/cudnn_double.h"
#include "ops/cuda/launch/attention_library.h"
#include "ops/cuda/launch/cuda_launches.h"
#include "ops/cuda/launch/cudnn_version.h"
#include "ops/cuda/launch/library_attention_launch.h"
#include "unit/ops/attention_bounds.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::AttentionBounds;
using test::AttentionCase;
using test::AttentionData;
using test::OpMachine;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Documents of one length.
AttentionCase equal_documents(const std::string& name, int64_t documents, int64_t queries,
                              int64_t keys) {
  AttentionCase c;
  c.name = name;
  c.q_offsets = c.kv_offsets = {0};
  for (int64_t d = 1; d <= documents; ++d) {
    c.q_offsets.push_back(d * queries);
    c.kv_offsets.push_back(d * keys);
  }
  return c;
}

AttentionData library_data(const AttentionCase& c, DType dtype) {
  AttentionData data(c, dtype);
  data.problem.library = true;
  data.problem.max_queries = c.q_offsets[1], data.problem.max_keys = c.kv_offsets[1];
  return data;
}

std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> list;
  const auto add = [&](AttentionCase c, auto&& change) {
    change(c);
    list.push_back(std::move(c));
  };
  add(equal_documents("causal", 1, 37, 37), [](auto&) {});
  add(equal_documents("batch", 3, 20, 20), [](auto& c) { c.heads = 3, c.kv_heads = 3; });
  add(equal_documents("full, more keys", 2, 9, 30), [](auto& c) { c.causal = false; });
  add(equal_documents("causal, fewer keys", 2, 30, 9), [](auto&) {});
  add(equal_documents("grouped", 2, 17, 17), [](auto& c) { c.heads = 6, c.kv_heads = 2; });
  add(equal_documents("widths", 2, 12, 12), [](auto& c) { c.width = 128, c.value_width = 40; });
  add(equal_documents("strided", 2, 12, 12), [](auto& c) { c.gap = 8; });
  return list;
}

void expect_gradients(const AttentionData& data, const AttentionData& expected,
                      const AttentionBounds& bounds) {
  test::expect_close(data.dq, expected.dq, bounds.terms, bounds.dq);
  test::expect_close(data.dk, expected.dk, bounds.terms, bounds.dk);
  test::expect_close(data.dv, expected.dv, bounds.terms, bounds.dv);
}

AttentionBackwardArgs backward_args(const AttentionData& data) {
  AttentionBackwardArgs args = data.backward();
  args.out = data.out;
  return args;
}

TEST(LibraryAttentionOnCuda, FollowsTheReference) {
  OpMachine machine(CpuIsa::portable, 2, {cpu::add_attention});
  OpContext context = machine.context();
  for (const AttentionCase& c : cases()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(c.name + " " + std::string(dtype_name(dtype)));
      const int64_t before = cudnn_double::executions();
      AttentionData data = library_data(c, dtype);
      AttentionData expected = data.in_f64();
      attention_forward(context, data.forward());
      EXPECT_GT(cudnn_double::executions(), before) << "our own kernels";
      reference::attention_forward(expected.forward());
      AttentionBounds forward(expected);
      forward.allow_rounding_of(CpuIsa::portable, dtype);
      test::expect_close(data.out, expected.out, forward.terms, forward.out);
      test::expect_close(data.lse, expected.lse, forward.terms, forward.lse);

      attention_delta(context, {data.out, data.d_out, data.delta});
      expected = data.in_f64();
      AttentionBounds backward(expected);
      backward.allow_rounding_of(CpuIsa::portable, dtype);
      const int64_t forwards = cudnn_double::executions();
      attention_backward(context, backward_args(data));
      EXPECT_GT(cudnn_double::executions(), forwards) << "our own kernels";
      reference::attention_backward(expected.backward());
      expect_gradients(data, expected, backward);
    }
  }
}

TEST(LibraryAttentionOnCuda, PartsOfDocumentsAndHeadsAddUpToTheSameBits) {
  const auto device = make_cpu_device(1);
  const OpTable table = cuda_ops_with_launches(CudaTarget::sm_90a);
  OpContext context{*device, table};
  AttentionCase c = equal_documents("", 4, 10, 10);
  c.heads = 6, c.kv_heads = 3, c.gap = 8;
  AttentionData whole = library_data(c, DType::bf16);
  attention_forward(context, whole.forward());
  attention_delta(context, {whole.out, whole.d_out, whole.delta});
  AttentionData parts = library_data(c, DType::bf16);
  parts.out = whole.out, parts.lse = whole.lse, parts.delta = whole.delta;
  attention_backward(context, backward_args(whole));

  const AttentionBackwardArgs args = backward_args(parts);
  cuda::LibraryCalls calls;
  ASSERT_TRUE(cuda::library_takes(args, calls));
  calls.kind.documents = 2, calls.document_calls = 2;
  calls.kind.heads = 2, calls.kind.kv_heads = 1, calls.head_calls = 3;
  const Tensor workspace = host_tensor(DType::u8, {calls.workspace_bytes});
  cuda::launch_library_backward(context, calls, args, workspace.raw());
  test::expect_same_bits(parts.dq, whole.dq);
  test::expect_same_bits(parts.dk, whole.dk);
  test::expect_same_bits(parts.dv, whole.dv);
}

TEST(LibraryAttentionOnCuda, APlanIsMadeOnceForAKindOfCall) {
  const auto device = make_cpu_device(1);
  const OpTable table = cuda_ops_with_launches(CudaTarget::sm_90a);
  OpContext context{*device, table};
  const AttentionData data = library_data(equal_documents("", 2, 24, 24), DType::bf16);
  attention_forward(context, data.forward());
  const int64_t kinds = cuda::attention_library(context).kinds();
  const int64_t descriptors = cudnn_double::live_descriptors();
  attention_forward(context, data.forward());
  EXPECT_EQ(cuda::attention_library(context).kinds(), kinds);
  EXPECT_EQ(cudnn_double::live_descriptors(), descriptors);
}

TEST(LibraryAttentionOnCuda, ALargerWorkspaceThanPlannedIsAnErrorWithBothFigures) {
  const auto device = make_cpu_device(1);
  const OpTable table = cuda_ops_with_launches(CudaTarget::sm_90a);
  OpContext context{*device, table};
  const AttentionData data = library_data(equal_documents("", 1, 11, 11), DType::f16);
  cudnn_double::set_more_workspace(1 << 20);
  EXPECT_THAT([&] { attention_forward(context, data.forward()); },
              ThrowsMessage<DeviceError>(AllOf(
                  HasSubstr("attention_forward: f16 [1 × 11 queries, 2 heads, 16]"),
                  HasSubstr("asks for a workspace of 1048832 bytes, the plan of memory has 4096"),
                  HasSubstr("set model.attention_backend to flash"))));
  cudnn_double::set_more_workspace(0);
}

TEST(LibraryAttentionOnCuda, AnOldLibraryIsRefusedWithWhatToInstall) {
  EXPECT_NO_THROW(cuda::check_cudnn_version(91900));
  EXPECT_THAT([] { cuda::check_cudnn_version(90702); },
              ThrowsMessage<DeviceError>(
                  AllOf(HasSubstr("cuDNN is version 9.7.2"), HasSubstr("install cuDNN 9.10"))));
}

}  // namespace
}  // namespace viaduct
