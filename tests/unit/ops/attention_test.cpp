#include "ops/attention.h"

#include <gtest/gtest.h>

#include "unit/ops/attention_bounds.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::AttentionBounds;
using test::AttentionCase;
using test::AttentionData;
using test::OpMachine;

std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> list;
  const auto add = [&](const std::string& name, auto&& change) {
    AttentionCase c;
    c.name = name;
    change(c);
    list.push_back(c);
  };
  add("causal", [](auto&) {});
  add("full", [](auto& c) { c.causal = false; });
  add("long", [](auto& c) { c.q_offsets = c.kv_offsets = {0, 200}, c.width = c.value_width = 48; });
  add("odd sizes", [](auto& c) { c.width = 7, c.value_width = 33; });
  add("wide heads", [](auto& c) { c.width = 96, c.value_width = 128, c.gap = 5; });
  add("one element", [](auto& c) { c.width = c.value_width = 1; });
  add("grouped", [](auto& c) { c.heads = 6, c.q_offsets = c.kv_offsets = {0, 150}; });
  add("one kv head", [](auto& c) { c.heads = 5, c.kv_heads = 1, c.gap = 3; });
  add("packed", [](auto& c) {
    c.q_offsets = c.kv_offsets = {0, 1, 1, 70, 140, 141};
    c.heads = 4, c.gap = 8;
  });
  add("window", [](auto& c) { c.window = 40, c.q_offsets = c.kv_offsets = {0, 170}; });
  add("window of one", [](auto& c) { c.window = 1; });
  add("window, not causal", [](auto& c) { c.window = 9, c.causal = false; });
  add("softcap", [](auto& c) { c.softcap = 0.7, c.heads = 4, c.size = 2; });
  add("softcap and window", [](auto& c) {
    c.softcap = 2, c.window = 20, c.q_offsets = c.kv_offsets = {0, 100};
  });
  add("cached keys", [](auto& c) {
    c.q_offsets = {0, 1, 4}, c.kv_offsets = {0, 90, 94}, c.diagonal = {89, 1}, c.heads = 4;
  });
  add("rows without keys", [](auto& c) {
    c.q_offsets = {0, 80, 90}, c.kv_offsets = {0, 30, 30}, c.diagonal = {-50, 0};
  });
  add("no keys at all", [](auto& c) { c.kv_offsets = {0, 0}; });
  add("dropout", [](auto& c) {
    c.dropout = 0.3, c.heads = 4, c.first_head = 3, c.q_offsets = c.kv_offsets = {0, 70, 90};
  });
  return list;
}

class Attention : public ::testing::TestWithParam<CpuIsa> {};

TEST_P(Attention, ForwardFollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_attention});
  OpContext context = machine.context();
  for (const AttentionCase& c : cases()) {
    for (DType dtype : test::kKernelDTypes) {
      SCOPED_TRACE(c.name + " " + std::string(dtype_name(dtype)));
      AttentionData data(c, dtype);
      AttentionData expected = data.in_f64();
      attention_forward(context, data.forward());
      reference::attention_forward(expected.forward());
      const AttentionBounds bounds(expected);
      test::expect_close(data.out, expected.out, bounds.terms, bounds.out);
      test::expect_close(data.lse, expected.lse, bounds.terms, bounds.lse);
    }
  }
}

TEST_P(Attention, BackwardFollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_attention});
  OpContext context = machine.context();
  for (const AttentionCase& c : cases()) {
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
      attention_backward(context, data.backward());
      reference::attention_backward(expected.backward());
      test::expect_close(data.dq, expected.dq, bounds.terms, bounds.dq);
      test::expect_close(data.dk, expected.dk, bounds.terms, bounds.dk);
      test::expect_close(data.dv, expected.dv, bounds.terms, bounds.dv);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Attention, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
