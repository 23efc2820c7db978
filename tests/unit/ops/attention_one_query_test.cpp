// Attention of single queries with a cache: equal, bit by bit, to blocks of many queries, on every
// instruction set.

#include <gtest/gtest.h>

#include "ops/attention.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::integers;
using test::OpMachine;
using test::random_strided;

struct Sizes {
  int64_t heads, kv_heads, width, value_width;
  int64_t window = 0;
  double softcap = 0;
};

class OneQuery : public testing::TestWithParam<CpuIsa> {
 protected:
  /// Documents of 1 query each (the second has none), after 0, 5, 63, 300 and 1030 keys, in runs of
  /// a longer cache.
  AttentionForwardArgs problem(const Sizes& s, DType dtype) {
    AttentionForwardArgs args;
    AttentionProblem& p = args.problem;
    p.q_offsets = integers(DType::i32, {0, 1, 1, 2, 3, 4});
    p.kv_offsets = integers(DType::i32, {0, 64, 100, 200, 520, 1600});
    p.diagonal = integers(DType::i32, {0, 5, 63, 300, 1030});
    p.window = s.window;
    p.softcap = s.softcap;
    p.scale = 0.3;
    p.max_keys = 1031;
    args.q = random_strided(dtype, {4, s.heads, s.width}, 3, 1, 2);
    args.k = random_strided(dtype, {1600, s.kv_heads, s.width}, 5, 2, 2);
    args.v = random_strided(dtype, {1600, s.kv_heads, s.value_width}, 1, 3);
    return args;
  }
  /// Computed by single queries or by blocks.
  AttentionForwardArgs run(AttentionForwardArgs args, bool single, OpContext& context) {
    args.problem.max_queries = single ? 1 : 2;
    args.out = test::strided_zeros(args.q.dtype(), {4, args.q.dim(1), args.v.dim(2)}, 2);
    args.lse = host_tensor(DType::f32, {args.q.dim(1), 4});
    attention_forward(context, args);
    return args;
  }
  OpMachine machine_{GetParam(), 2, {cpu::add_attention}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, OneQuery, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(OneQuery, GivesTheBitsOfBlocks) {
  const Sizes sizes[] = {{9, 3, 64, 64},    {4, 4, 16, 16},     {5, 1, 20, 33, 0, 4.0},
                         {16, 1, 128, 128}, {8, 2, 64, 40, 37}, {6, 2, 32, 48, 600, 2.0},
                         {7, 1, 8, 72}};
  for (const DType dtype : test::kKernelDTypes) {
    for (const Sizes& s : sizes) {
      SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << s.heads << "/" << s.kv_heads
                                      << " x " << s.width << ", window " << s.window);
      const AttentionForwardArgs args = problem(s, dtype);
      const AttentionForwardArgs blocks = run(args, false, context_),
                                 one = run(args, true, context_);
      expect_same_bits(one.out, blocks.out);
      expect_same_bits(one.lse, blocks.lse);
      if (HasFailure()) return;
    }
  }
}

TEST_P(OneQuery, NeedsNoMemoryForPackedKeys) {
  AttentionForwardArgs args = problem({9, 3, 64, 64}, DType::bf16);
  args.problem.max_queries = 1;
  args.out = host_tensor(DType::bf16, {4, 9, 64});
  args.lse = host_tensor(DType::f32, {9, 4});
  const auto bytes = [&] {
    return context_.ops.attention_forward.choose(args, context_.ops.traits).workspace_bytes;
  };
  const int64_t short_cache = bytes();
  args.k = host_tensor(DType::bf16, {160000, 3, 64}), args.v = args.k;
  EXPECT_EQ(bytes(), short_cache);
}

TEST_P(OneQuery, RefusesADocumentOfMore) {
  AttentionForwardArgs args = problem({4, 4, 16, 16}, DType::f32);
  args.problem.q_offsets = integers(DType::i32, {0, 2, 2, 2, 3, 4});
  EXPECT_THROW(run(args, true, context_), ShapeError);
}

}  // namespace
}  // namespace viaduct
