#pragma once
// Attention problems that the tests of attention share: several documents, strided inputs, and the
// FP64 reference.

#include <cmath>
#include <string>
#include <vector>

#include "ops/attention.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct::test {

struct AttentionCase {
  std::string name;
  std::vector<int64_t> q_offsets{0, 37}, kv_offsets{0, 37};
  std::vector<int64_t> diagonal;  // empty: none
  int64_t heads = 2, kv_heads = 2, width = 16, value_width = 16;
  bool causal = true;
  int64_t window = 0;
  double softcap = 0, dropout = 0;
  int64_t first_head = 0;
  int64_t gap = 0;           // unused elements after every head, so that rows are strided
  double size = 1;           // inputs are uniform in [−size, size]
  int64_t max_distance = 0;  // of a bias of the scores; 0: none

  int64_t queries() const { return q_offsets.back(); }
  int64_t keys() const { return kv_offsets.back(); }
};

/// All tensors of a case in one dtype.
struct AttentionData {
  AttentionProblem problem;
  Tensor q, k, v, out, lse, d_out, delta, dq, dk, dv;
  Tensor d_bias;

  AttentionData(const AttentionCase& c, DType dtype, uint64_t seed = 1) {
    problem.q_offsets = integers(DType::i32, c.q_offsets);
    problem.kv_offsets = integers(DType::i32, c.kv_offsets);
    if (!c.diagonal.empty()) problem.diagonal = integers(DType::i32, c.diagonal);
    problem.causal = c.causal;
    problem.window = c.window;
    problem.scale = 1 / std::sqrt(static_cast<double>(c.width));
    problem.softcap = c.softcap;
    problem.dropout = c.dropout;
    problem.dropout_key = {17, 4711};
    problem.first_head = c.first_head;
    if (c.dropout > 0) {
      std::vector<int64_t> index;
      for (int64_t t = 0; t < c.queries(); ++t) index.push_back((int64_t{1} << 33) + 3 * t);
      problem.query_index = integers(DType::i64, index);
    }
    const DType sums = dtype == DType::f64 ? DType::f64 : DType::f32;
    q = random_strided(dtype, {c.queries(), c.heads, c.width}, c.gap, seed, c.size);
    k = random_strided(dtype, {c.keys(), c.kv_heads, c.width}, c.gap, seed + 1, c.size);
    v = random_strided(dtype, {c.keys(), c.kv_heads, c.value_width}, c.gap, seed + 2, c.size);
    out = strided_zeros(dtype, {c.queries(), c.heads, c.value_width}, c.gap);
    d_out = random_strided(dtype, {c.queries(), c.heads, c.value_width}, c.gap, seed + 3, c.size);
    lse = host_tensor(sums, {c.heads, c.queries()});
    delta = host_tensor(sums, {c.heads, c.queries()});
    // Not zero, because gradients are added to it.
    dq = random_tensor(sums, {c.queries(), c.heads, c.width}, seed + 4);
    dk = random_tensor(sums, {c.keys(), c.kv_heads, c.width}, seed + 5);
    dv = random_tensor(sums, {c.keys(), c.kv_heads, c.value_width}, seed + 6);
    if (c.max_distance > 0) {
      problem.relative = {8, c.max_distance, !c.causal};
      problem.bias = random_tensor(dtype, {8, c.heads}, seed + 7);
      d_bias = random_tensor(sums, {8, c.heads}, seed + 8);
    }
  }

  AttentionForwardArgs forward() const { return {problem, q, k, v, out, lse}; }
  AttentionBackwardArgs backward() const {
    AttentionBackwardArgs args{problem, q, k, v, d_out, lse, delta, dq, dk, dv};
    args.d_bias = d_bias;
    return args;
  }

  /// The same values in FP64.
  AttentionData in_f64() const {
    AttentionData copy = *this;
    for (Tensor AttentionData::*member :
         {&AttentionData::q, &AttentionData::k, &AttentionData::v, &AttentionData::out,
          &AttentionData::lse, &AttentionData::d_out, &AttentionData::delta, &AttentionData::dq,
          &AttentionData::dk, &AttentionData::dv}) {
      copy.*member = to_f64(this->*member);
    }
    if (problem.bias) {
      copy.problem.bias = to_f64(problem.bias);
      copy.d_bias = to_f64(d_bias);
    }
    return copy;
  }
};

/// The features of attention, one in each case.
inline std::vector<AttentionCase> attention_cases() {
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

/// Of attention with a bias of the scores.
inline std::vector<AttentionCase> biased_attention_cases() {
  std::vector<AttentionCase> list;
  const auto add = [&](const std::string& name, auto&& change) {
    AttentionCase c;
    c.name = "bias, " + name;
    c.max_distance = 20;
    change(c);
    list.push_back(c);
  };
  add("full", [](auto& c) { c.causal = false; });
  add("causal", [](auto& c) { c.q_offsets = c.kv_offsets = {0, 90}; });
  // Chunks of keys have sums of their own.
  add("long", [](auto& c) {
    c.q_offsets = c.kv_offsets = {0, 300}, c.causal = false, c.max_distance = 200;
    c.heads = c.kv_heads = 1;
  });
  add("packed", [](auto& c) {
    c.q_offsets = c.kv_offsets = {0, 1, 1, 70, 140, 141};
    c.heads = c.kv_heads = 4, c.gap = 8, c.causal = false;
  });
  add("window", [](auto& c) { c.window = 40, c.q_offsets = c.kv_offsets = {0, 170}; });
  add("dropout", [](auto& c) {
    c.dropout = 0.3, c.first_head = 3, c.q_offsets = c.kv_offsets = {0, 70, 90};
  });
  add("keys before the queries", [](auto& c) {
    c.q_offsets = {0, 3, 40}, c.kv_offsets = {0, 90, 130}, c.diagonal = {87, -4};
  });
  add("no keys at all", [](auto& c) { c.kv_offsets = {0, 0}; });
  return list;
}

}  // namespace viaduct::test
