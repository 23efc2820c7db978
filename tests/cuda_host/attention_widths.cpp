// Attention on a GPU's kernels: the head widths with a kernel, and widths without one. The tests of
// the cpu's attention (tests/unit/ops) test its features.

#include <gtest/gtest.h>

#include "unit/ops/attention_bounds.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::AttentionBounds;
using test::AttentionCase;
using test::AttentionData;
using test::OpMachine;

/// Each width uses another kernel, or is at its limit; documents end inside tiles.
std::vector<AttentionCase> widths() {
  std::vector<AttentionCase> list;
  for (const auto& [width, value_width] : {std::pair<int64_t, int64_t>(64, 64),
                                           {65, 64},
                                           {192, 128},
                                           {129, 20},
                                           {256, 256},
                                           {40, 200}}) {
    AttentionCase c;
    c.name = std::to_string(width) + "/" + std::to_string(value_width);
    c.width = width, c.value_width = value_width;
    c.q_offsets = {0, 3, 43}, c.kv_offsets = {0, 20, 92}, c.diagonal = {17, 32};
    c.heads = 3, c.kv_heads = 1, c.window = 50, c.dropout = 0.1;
    list.push_back(c);
  }
  return list;
}

TEST(AttentionOnCuda, EveryWidthFollowsTheReference) {
  OpMachine machine(CpuIsa::portable, 2, {cpu::add_attention});
  OpContext context = machine.context();
  for (const AttentionCase& c : widths()) {
    for (const DType dtype : test::kKernelDTypes) {
      SCOPED_TRACE(c.name + " " + std::string(dtype_name(dtype)));
      AttentionData data(c, dtype);
      AttentionData expected = data.in_f64();
      attention_forward(context, data.forward());
      reference::attention_forward(expected.forward());
      AttentionBounds forward(expected);
      forward.allow_rounding_of(CpuIsa::portable, dtype);
      test::expect_close(data.out, expected.out, forward.terms, forward.out);
      test::expect_close(data.lse, expected.lse, forward.terms, forward.lse);

      attention_delta(context, {data.out, data.d_out, data.delta});
      expected = data.in_f64();
      AttentionBounds backward(expected);
      backward.allow_rounding_of(CpuIsa::portable, dtype);
      attention_backward(context, data.backward());
      reference::attention_backward(expected.backward());
      test::expect_close(data.dq, expected.dq, backward.terms, backward.dq);
      test::expect_close(data.dk, expected.dk, backward.terms, backward.dk);
      test::expect_close(data.dv, expected.dv, backward.terms, backward.dv);
    }
  }
}

// More documents than a warp has lanes, some of them empty: blocks must find their document.
TEST(AttentionOnCuda, FindsManyDocuments) {
  OpMachine machine(CpuIsa::portable, 2, {cpu::add_attention});
  OpContext context = machine.context();
  AttentionCase c;
  c.q_offsets = c.kv_offsets = {0};
  for (int64_t d = 0; d < 70; ++d) {
    c.q_offsets.push_back(c.q_offsets.back() + (d % 5 == 0 ? 0 : d % 3 + 1));
    c.kv_offsets.push_back(c.kv_offsets.back() + (d % 7 == 0 ? 0 : d % 4 + 1));
  }
  c.causal = false;
  AttentionData data(c, DType::f32);
  attention_forward(context, data.forward());
  attention_delta(context, {data.out, data.d_out, data.delta});
  AttentionData expected = data.in_f64();
  const AttentionBounds bounds(expected);
  attention_backward(context, data.backward());
  reference::attention_backward(expected.backward());
  test::expect_close(data.dk, expected.dk, bounds.terms, bounds.dk);
  test::expect_close(data.dq, expected.dq, bounds.terms, bounds.dq);
  reference::attention_forward(expected.forward());
  test::expect_close(data.out, expected.out, bounds.terms, bounds.out);
}

}  // namespace
}  // namespace viaduct
