// Which attention cuDNN computes, and what it costs: from shapes alone.

#include "ops/cuda/library_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ops/costs.h"
#include "ops/cuda/cuda_ops.h"

namespace viaduct::cuda {
namespace {

/// A backward of documents of one length, on a device that has no memory.
class LibraryAttentionTest : public testing::Test {
 protected:
  struct Sizes {
    int64_t documents = 2, heads = 8, kv_heads = 8, queries = 64, keys = 64, width = 64;
    DType dtype = DType::bf16;
  };
  AttentionBackwardArgs backward(const Sizes& s) {
    const int64_t tq = s.documents * s.queries, tk = s.documents * s.keys;
    const auto sized = [&](DType dtype, const Shape& shape) {
      return device_->allocate(dtype, shape, MemoryTag::other);
    };
    AttentionBackwardArgs args;
    args.problem.library = true;
    args.problem.q_offsets = args.problem.kv_offsets = sized(DType::i32, {s.documents + 1});
    args.problem.max_queries = s.queries, args.problem.max_keys = s.keys;
    args.q = sized(s.dtype, {tq, s.heads, s.width});
    args.k = args.v = sized(s.dtype, {tk, s.kv_heads, s.width});
    args.out = args.d_out = args.q;
    args.lse = args.delta = sized(DType::f32, {s.heads, tq});
    args.dq = sized(DType::f32, args.q.shape());
    args.dk = args.dv = sized(DType::f32, args.k.shape());
    return args;
  }
  AttentionForwardArgs forward(const Sizes& s) {
    const AttentionBackwardArgs args = backward(s);
    return {args.problem, args.q, args.k, args.v, args.out, args.lse};
  }
  std::string_view kernel(const AttentionForwardArgs& args) const {
    return table_.attention_forward.choose(args, table_.traits).kernel;
  }
  std::string_view kernel(const AttentionBackwardArgs& args) const {
    return table_.attention_backward.choose(args, table_.traits).kernel;
  }

  std::unique_ptr<Device> device_ = make_sim_device();
  OpTable table_ = cuda_ops(CudaTarget::sm_90a);
};

TEST_F(LibraryAttentionTest, TakesDocumentsOfOneLengthWhereItIsAskedFor) {
  EXPECT_EQ(kernel(forward({})), "cudnn");
  EXPECT_EQ(kernel(backward({})), "cudnn");
  EXPECT_EQ(kernel(backward({.kv_heads = 2, .queries = 10, .keys = 77, .dtype = DType::f16})),
            "cudnn");
  AttentionForwardArgs not_asked = forward({});
  not_asked.problem.library = false;
  EXPECT_EQ(kernel(not_asked), "flash_mma");
}

TEST_F(LibraryAttentionTest, OurKernelsComputeWhatItDoesNotSupport) {
  using Change = std::function<void(AttentionBackwardArgs&)>;
  const std::pair<const char*, Change> changes[] = {
      {"diagonal", [&](auto& a) { a.problem.diagonal = a.problem.q_offsets.slice(0, 0, 2); }},
      {"window", [](auto& a) { a.problem.window = 5; }},
      {"soft cap", [](auto& a) { a.problem.softcap = 30; }},
      {"dropout", [](auto& a) { a.problem.dropout = 0.1; }},
      {"packed queries", [](auto& a) { a.problem.max_queries = 100; }},
      {"packed keys", [](auto& a) { a.problem.max_keys = 100; }},
      {"no output", [](auto& a) { a.out = {}; }},
  };
  for (const auto& [name, change] : changes) {
    AttentionBackwardArgs args = backward({});
    change(args);
    EXPECT_EQ(kernel(args), "flash_mma") << name;
  }
  EXPECT_EQ(kernel(forward({.width = 192})), "flash_mma");
  EXPECT_EQ(kernel(forward({.width = 100})), "flash_mma");
  EXPECT_EQ(kernel(forward({.dtype = DType::f32})), "flash_f32");
}

// The figures are those of cuDNN 9.19's plans for compute capability 9.0.
TEST_F(LibraryAttentionTest, TheWorkspaceBoundsWhatPlansAskFor) {
  struct Row {
    Sizes sizes;
    int64_t asked;
  };
  for (const Row& row :
       {Row{{1, 8, 8, 64, 64, 64}, 131328}, Row{{1, 8, 8, 1, 1, 64}, 131328},
        Row{{3, 8, 8, 129, 129, 128}, 2359552}, Row{{1, 8, 8, 4097, 4097, 128}, 281149696},
        Row{{1, 8, 8, 2048, 1000, 128}, 33554688}, Row{{1, 8, 2, 1000, 1000, 128}, 20873472},
        Row{{3, 8, 1, 500, 500, 64}, 15655168}, Row{{2, 8, 2, 200, 300, 96}, 4989184}}) {
    LibraryCalls calls;
    ASSERT_TRUE(library_takes(backward(row.sizes), calls));
    EXPECT_GE(calls.library_bytes, row.asked);
    EXPECT_LE(calls.library_bytes, row.asked + 4096);
  }
}

TEST_F(LibraryAttentionTest, ALargeBackwardIsMadeInParts) {
  LibraryCalls calls;
  // Llama 3 8B: 4.3 GB for all heads of a document. A call has the smallest part, one head of keys.
  ASSERT_TRUE(library_takes(backward({2, 32, 8, 8192, 8192, 128}), calls));
  EXPECT_EQ(calls.document_calls, 2);
  EXPECT_EQ(calls.head_calls, 8);
  EXPECT_EQ(calls.kind.documents, 1);
  EXPECT_EQ(calls.kind.heads, 4);
  EXPECT_EQ(calls.kind.kv_heads, 1);
  EXPECT_EQ(calls.kind.all_heads, 32);
  EXPECT_EQ(calls.library_bytes, 4 * (8192 * 8192 + 8192 * 256) * 2 + 4096);
  ASSERT_TRUE(library_takes(backward({2, 32, 8, 2048, 2048, 128}), calls));
  EXPECT_EQ(calls.calls(), 2) << "all heads of a document fit";
  // It may be larger than wanted, up to a bound.
  ASSERT_TRUE(library_takes(backward({1, 32, 8, 16384, 16384, 128}), calls));
  EXPECT_EQ(calls.head_calls, 8);
  EXPECT_LE(calls.library_bytes, kMostLibraryWorkspace);
  // No part is small enough.
  EXPECT_FALSE(library_takes(backward({1, 32, 8, 65536, 65536, 128}), calls));
  EXPECT_EQ(kernel(backward({1, 32, 8, 65536, 65536, 128})), "flash_mma");
}

TEST_F(LibraryAttentionTest, TheBackwardCountsFiveProductsAndItsMatrix) {
  const AttentionBackwardArgs args = backward({.queries = 512, .keys = 512});
  const Choice library = table_.attention_backward.choose(args, table_.traits);
  const Cost contract = cost_of(args);
  EXPECT_EQ(library.cost.flops[static_cast<size_t>(FlopFormat::bf16)],
            contract.flops[static_cast<size_t>(FlopFormat::f32)]);
  const int64_t matrix = int64_t{2} * 8 * 512 * 512 * 2;
  EXPECT_GE(library.workspace_bytes, matrix);
  EXPECT_GE(library.cost.bytes_written, contract.bytes_written + matrix);
  EXPECT_EQ(library.launches, kLibraryBackwardKernels + 3);

  const AttentionForwardArgs small = forward({});
  const Choice one = table_.attention_forward.choose(small, table_.traits);
  EXPECT_EQ(one.launches, 1);
  EXPECT_EQ(one.cost.bytes_written, cost_of(small).bytes_written);
  EXPECT_LE(one.workspace_bytes, 8192);
}

TEST_F(LibraryAttentionTest, PartsOfTheWorkspaceDoNotOverlap) {
  const AttentionBackwardArgs args = backward({.kv_heads = 2});
  LibraryCalls calls;
  ASSERT_TRUE(library_takes(args, calls));
  EXPECT_GE(calls.dq_at, calls.delta_at + args.delta.bytes());
  EXPECT_GE(calls.dk_at, calls.dq_at + args.dq.bytes() / 2);
  EXPECT_GE(calls.dv_at, calls.dk_at + args.dk.bytes() / 2);
  EXPECT_GE(calls.library_at, calls.dv_at + args.dv.bytes() / 2);
  EXPECT_GE(calls.workspace_bytes, kLibraryAlignment + calls.library_at + calls.library_bytes);
  for (const int64_t at : {calls.dq_at, calls.dk_at, calls.dv_at, calls.library_at})
    EXPECT_EQ(at % kLibraryAlignment, 0);
}

}  // namespace
}  // namespace viaduct::cuda
