#include "ops/attention.h"

#include <gtest/gtest.h>

#include "support/tensor_bytes.h"
#include "unit/ops/attention_bounds.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::attention_cases;
using test::AttentionBounds;
using test::AttentionCase;
using test::AttentionData;
using test::OpMachine;

class Attention : public ::testing::TestWithParam<CpuIsa> {};

TEST_P(Attention, ForwardFollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_attention});
  OpContext context = machine.context();
  for (const AttentionCase& c : attention_cases()) {
    for (DType dtype : test::kKernelDTypes) {
      SCOPED_TRACE(c.name + " " + std::string(dtype_name(dtype)));
      AttentionData data(c, dtype);
      AttentionData expected = data.in_f64();
      attention_forward(context, data.forward());
      reference::attention_forward(expected.forward());
      AttentionBounds bounds(expected);
      bounds.allow_rounding_of(GetParam(), dtype);
      test::expect_close(data.out, expected.out, bounds.terms, bounds.out);
      test::expect_close(data.lse, expected.lse, bounds.terms, bounds.lse);
    }
  }
}

TEST_P(Attention, BackwardFollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_attention});
  OpContext context = machine.context();
  for (const AttentionCase& c : attention_cases()) {
    for (DType dtype : test::kKernelDTypes) {
      SCOPED_TRACE(c.name + " " + std::string(dtype_name(dtype)));
      AttentionData data(c, dtype);
      attention_forward(context, data.forward());
      attention_delta(context, {data.out, data.d_out, data.delta});
      AttentionData expected = data.in_f64();
      const Tensor delta = expected.delta;
      reference::attention_delta({expected.out, expected.d_out, expected.delta});
      test::expect_close(data.delta, expected.delta, static_cast<double>(c.value_width),
                         AttentionBounds::delta(expected));
      expected.delta = delta;  // the backward from the same delta
      AttentionBounds bounds(expected);
      bounds.allow_rounding_of(GetParam(), dtype);
      attention_backward(context, data.backward());
      reference::attention_backward(expected.backward());
      test::expect_close(data.dq, expected.dq, bounds.terms, bounds.dq);
      test::expect_close(data.dk, expected.dk, bounds.terms, bounds.dk);
      test::expect_close(data.dv, expected.dv, bounds.terms, bounds.dv);
    }
  }
}

// For one document the shapes say which queries see a task's keys, and its part of dq has only
// these; with offsets on the diagonal they do not. The bits are the same.
TEST_P(Attention, PartsOfOneDocumentHaveTheQueriesThatSeeThem) {
  OpMachine machine(GetParam(), 2, {cpu::add_attention});
  OpContext context = machine.context();
  for (const int64_t window : {0, 70}) {
    for (const int64_t tokens : {1100, 640}) {
      for (const DType dtype : test::kKernelDTypes) {
        SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(tokens));
        AttentionCase c;
        c.q_offsets = c.kv_offsets = {0, tokens};
        c.heads = 6, c.window = window;
        AttentionData few(c, dtype);
        c.diagonal = {0};
        AttentionData all(c, dtype);
        for (AttentionData* data : {&few, &all}) {
          data->problem.max_queries = data->problem.max_keys = tokens;
          attention_forward(context, data->forward());
          attention_delta(context, {data->out, data->d_out, data->delta});
        }
        const auto bytes = [&](const AttentionData& data) {
          return machine.table()
              .attention_backward.choose(data.backward(), machine.table().traits)
              .workspace_bytes;
        };
        EXPECT_LT(bytes(few), bytes(all));
        attention_backward(context, few.backward());
        attention_backward(context, all.backward());
        EXPECT_TRUE(test::bytes_of(few.dq) == test::bytes_of(all.dq));
        EXPECT_TRUE(test::bytes_of(few.dk) == test::bytes_of(all.dk));
        EXPECT_TRUE(test::bytes_of(few.dv) == test::bytes_of(all.dv));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Attention, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
