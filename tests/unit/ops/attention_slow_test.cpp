#include <gtest/gtest.h>

#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::AttentionCase;
using test::AttentionData;
using test::OpMachine;

// A long sequence: workspace stays small, and single queries agree with the reference run on them
// alone.
TEST(AttentionLong, FourThousandTokens) {
  constexpr int64_t kTokens = 4096;
  for (CpuIsa isa : test::testable_isas()) {
    OpMachine machine(isa, 2, {cpu::add_attention});
    OpContext context = machine.context();
    AttentionCase c;
    c.q_offsets = c.kv_offsets = {0, kTokens};
    c.width = c.value_width = 32;
    c.heads = 2, c.kv_heads = 1;
    AttentionData data(c, DType::f32);
    data.problem.max_queries = data.problem.max_keys = kTokens;
    const int64_t before = machine.device().memory().bytes_in_use;
    machine.device().reset_peak();
    attention_forward(context, data.forward());
    attention_delta(context, {data.out, data.d_out, data.delta});
    attention_backward(context, data.backward());
    EXPECT_LT(machine.device().memory().peak_bytes - before, int64_t{16} << 20);
    for (int64_t token : {int64_t{0}, int64_t{63}, int64_t{2049}, kTokens - 1}) {
      AttentionData one = data.in_f64();
      one.problem.q_offsets = test::integers(DType::i32, {0, 1});
      one.problem.diagonal = test::integers(DType::i32, {token});
      one.q = one.q.slice(0, token, 1);
      one.out = host_tensor(DType::f64, {1, 2, 32});
      one.lse = host_tensor(DType::f64, {2, 1});
      reference::attention_forward(one.forward());
      // Terms of an average of values within [−1, 1], scores within √32.
      const Tensor terms = host_tensor(DType::f64, one.out.shape());
      std::fill_n(terms.data<double>(), terms.elements(), 2.0);
      test::expect_close(data.out.slice(0, token, 1), one.out, kTokens, terms);
    }
  }
}

}  // namespace
}  // namespace viaduct
