// Properties of attention that need no reference: merged parts of the keys, separate documents,
// threads, memory; and the reference's own gradients.

#include <gtest/gtest.h>

#include <limits>

#include "unit/ops/attention_bounds.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::AttentionBounds;
using test::AttentionCase;
using test::AttentionData;
using test::element;
using test::OpMachine;

class AttentionParts : public ::testing::TestWithParam<CpuIsa> {};

AttentionCase large_case() {
  AttentionCase c;
  c.q_offsets = c.kv_offsets = {0, 90, 220};
  c.heads = 4, c.softcap = 1.5, c.dropout = 0.2;
  return c;
}

TEST_P(AttentionParts, ThreadsDoNotChangeABit) {
  const auto run = [&](int threads, int64_t max_keys, DType dtype) {
    OpMachine machine(GetParam(), threads, {cpu::add_attention});
    OpContext context = machine.context();
    AttentionData data(large_case(), dtype);
    data.problem.max_queries = data.problem.max_keys = max_keys;
    attention_forward(context, data.forward());
    attention_delta(context, {data.out, data.d_out, data.delta});
    attention_backward(context, data.backward());
    return data;
  };
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (int64_t max_keys : {130, 0, 2000}) {  // the bounds decide how keys are cut
      const AttentionData one = run(1, max_keys, dtype);
      for (int threads : {2, 3, 7}) {
        const AttentionData many = run(threads, max_keys, dtype);
        for (Tensor AttentionData::*t :
             {&AttentionData::out, &AttentionData::lse, &AttentionData::dq, &AttentionData::dk,
              &AttentionData::dv}) {
          test::expect_same_bits(many.*t, one.*t);
        }
      }
    }
  }
}

// Keys cut over a ring, each part with its own diagonal: outputs are merged, and the gradients of
// all parts, from the merged lse and delta, add up to those of the whole.
TEST_P(AttentionParts, PartsOfTheKeysMergeToTheWhole) {
  OpMachine machine(GetParam(), 2, {cpu::add_attention});
  OpContext context = machine.context();
  AttentionCase c;
  c.q_offsets = c.kv_offsets = {0, 150};
  c.heads = 4, c.window = 100, c.gap = 2, c.dropout = 0.2;
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    SCOPED_TRACE(dtype_name(dtype));
    AttentionData whole(c, dtype), ring(c, dtype);
    attention_forward(context, whole.forward());
    attention_delta(context, {whole.out, whole.d_out, whole.delta});
    AttentionBounds bounds(whole.in_f64());
    bounds.allow_rounding_of(GetParam(), dtype);
    attention_backward(context, whole.backward());

    const std::pair<int64_t, int64_t> parts[] = {{70, 150}, {0, 33}, {33, 70}};
    const auto part = [&](std::pair<int64_t, int64_t> keys) {
      AttentionData p = ring;
      const int64_t count = keys.second - keys.first;
      p.k = ring.k.slice(0, keys.first, count);
      p.v = ring.v.slice(0, keys.first, count);
      p.dk = ring.dk.slice(0, keys.first, count);
      p.dv = ring.dv.slice(0, keys.first, count);
      p.problem.kv_offsets = test::integers(DType::i32, {0, count});
      p.problem.diagonal = test::integers(DType::i32, {-keys.first});
      std::vector<int64_t> positions;
      for (int64_t j = keys.first; j < keys.second; ++j) positions.push_back(j);
      p.problem.key_position = test::integers(DType::i32, positions);
      return p;
    };
    // A ring might use f32 for out between the parts; here it keeps the dtype.
    bool begun = false;
    for (const auto& keys : parts) {
      AttentionData p = part(keys);
      if (begun) {
        p.out = host_tensor(dtype, ring.out.shape());
        p.lse = host_tensor(ring.lse.dtype(), ring.lse.shape());
      }
      attention_forward(context, p.forward());
      if (begun) attention_merge(context, {ring.out, ring.lse, p.out, p.lse});
      begun = true;
    }
    // Each part's output is rounded one more time than the whole's.
    const double terms = bounds.terms;
    const Tensor out_terms = test::to_f64(bounds.out);
    if (dtype != DType::f64) {
      const double extra = 2 * dtype_epsilon(dtype) / (4 * dtype_epsilon(DType::f32));
      for (int64_t i = 0; i < out_terms.elements(); ++i)
        out_terms.data<double>()[i] *= 1 + 2 * extra / std::sqrt(terms);
    }
    test::expect_close(ring.out, test::to_f64(whole.out), terms, out_terms);
    test::expect_close(ring.lse, test::to_f64(whole.lse), terms, bounds.lse);
    ring.lse = whole.lse, ring.delta = whole.delta;
    for (const auto& keys : parts) {
      const AttentionData p = part(keys);
      attention_backward(context, p.backward());
    }
    test::expect_close(ring.dq, test::to_f64(whole.dq), terms, bounds.dq);
    test::expect_close(ring.dk, test::to_f64(whole.dk), terms, bounds.dk);
    test::expect_close(ring.dv, test::to_f64(whole.dv), terms, bounds.dv);
  }
}

TEST_P(AttentionParts, MergeWithNothingIsTheOther) {
  OpMachine machine(GetParam(), 1, {cpu::add_attention});
  OpContext context = machine.context();
  const float none = -std::numeric_limits<float>::infinity();
  const Tensor out = host_tensor(DType::f32, {2, 1, 5});
  const Tensor lse = host_tensor(DType::f32, {1, 2}), other_lse = host_tensor(DType::f32, {1, 2});
  const Tensor other = test::random_tensor(DType::f32, {2, 1, 5}, 1);
  for (float* p : {lse.data<float>(), lse.data<float>() + 1, other_lse.data<float>() + 1})
    *p = none;
  other_lse.data<float>()[0] = 2.5f;
  attention_merge(context, {out, lse, other, other_lse});
  test::expect_same_bits(out.slice(0, 0, 1), other.slice(0, 0, 1));
  EXPECT_EQ(lse.data<float>()[0], 2.5f);
  EXPECT_EQ(lse.data<float>()[1], none);
  for (int64_t i = 5; i < 10; ++i) EXPECT_EQ(element(out, i), 0);
}

// A sum of parts in FP32 is the sum of the widened parts.
TEST_P(AttentionParts, MergeIntoAWiderSum) {
  OpMachine machine(GetParam(), 1, {cpu::add_attention});
  OpContext context = machine.context();
  for (DType dtype : {DType::bf16, DType::f16}) {
    const Tensor part = test::random_tensor(dtype, {3, 2, 19}, 1);
    const Tensor sum = test::random_tensor(DType::f32, {3, 2, 19}, 2);
    const Tensor expected = test::converted(sum, DType::f32);
    const Tensor part_lse = test::random_tensor(DType::f32, {2, 3}, 3);
    const Tensor lse = test::random_tensor(DType::f32, {2, 3}, 4);
    const Tensor expected_lse = test::converted(lse, DType::f32);
    attention_merge(context, {sum, lse, part, part_lse});
    attention_merge(context, {expected, expected_lse, test::converted(part, DType::f32), part_lse});
    test::expect_same_bits(sum, expected);
    test::expect_same_bits(lse, expected_lse);
  }
  EXPECT_THROW(attention_merge(
                   context, {host_tensor(DType::f16, {1, 1, 4}), host_tensor(DType::f32, {1, 1}),
                             host_tensor(DType::bf16, {1, 1, 4}), host_tensor(DType::f32, {1, 1})}),
               ShapeError);
}

// The content of a document does not change the bits of another one.
TEST_P(AttentionParts, DocumentsDoNotSeeEachOther) {
  OpMachine machine(GetParam(), 2, {cpu::add_attention});
  OpContext context = machine.context();
  AttentionCase packed;
  packed.q_offsets = packed.kv_offsets = {0, 31, 95, 100};
  packed.causal = false;
  AttentionData all(packed, DType::bf16), changed(packed, DType::bf16);
  for (int64_t i = 0; i < changed.k.elements(); ++i) {
    const int64_t token = i / (2 * 16);
    if (token >= 31 && token < 95) continue;
    test::set_element(changed.k, i, std::numeric_limits<double>::quiet_NaN());
    test::set_element(changed.v, i, std::numeric_limits<double>::quiet_NaN());
  }
  attention_forward(context, all.forward());
  attention_forward(context, changed.forward());
  test::expect_same_bits(changed.out.slice(0, 31, 64), all.out.slice(0, 31, 64));
  EXPECT_TRUE(std::isnan(element(changed.out, 0)));  // and a visible NaN propagates
}

TEST_P(AttentionParts, MemoryIsLinearInTheTokens) {
  const auto workspace = [&](int64_t tokens, bool backward) {
    const auto device = make_sim_device();
    OpMachine machine(GetParam(), 1, {cpu::add_attention});
    StepRecord record;
    device->set_record(&record);
    OpContext context{*device, machine.table()};
    AttentionData data(AttentionCase{}, DType::bf16);
    const auto tensor = [&](DType dtype, const Shape& shape) {
      return device->allocate(dtype, shape, MemoryTag::other);
    };
    data.q = data.k = data.v = data.out = data.d_out = tensor(DType::bf16, {tokens, 2, 64});
    data.dq = data.dk = data.dv = tensor(DType::f32, {tokens, 2, 64});
    data.lse = data.delta = tensor(DType::f32, {2, tokens});
    data.problem.q_offsets = data.problem.kv_offsets = tensor(DType::i32, {2});
    data.problem.max_queries = data.problem.max_keys = tokens;
    if (backward) {
      attention_backward(context, data.backward());
    } else {
      attention_forward(context, data.forward());
    }
    const OpEntryRecord& op = record.ops().back();
    EXPECT_NE(op.kernel, "reference");
    const double pairs = 0.5 * static_cast<double>(tokens) * static_cast<double>(tokens + 1);
    const bool tiles = op.kernel.find("tiles") != std::string::npos;
    EXPECT_EQ(tiles, GetParam() == CpuIsa::avx512_bf16 || GetParam() == CpuIsa::amx);
    EXPECT_DOUBLE_EQ(op.cost.flops[static_cast<size_t>(tiles ? FlopFormat::bf16 : FlopFormat::f32)],
                     pairs * 2 * 2 * 64 * (backward ? 5 : 2));
    return op.workspace_bytes;
  };
  for (bool backward : {false, true}) {
    const int64_t small = workspace(4096, backward), large = workspace(32768, backward);
    EXPECT_LE(large, 8 * small);
    EXPECT_LE(large, int64_t{96} << 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, AttentionParts, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST(AttentionReference, GradientsAreFiniteDifferences) {
  for (int form = 0; form < 4; ++form) {
    AttentionCase c;
    c.q_offsets = {0, 4, 6}, c.kv_offsets = {0, 5, 7}, c.diagonal = {1, -1};
    c.heads = 4, c.width = 3, c.value_width = 2;
    if (form == 1) c.softcap = 0.5;
    if (form == 2) c.window = 2;
    if (form == 3) c.dropout = 0.4;
    AttentionData d(c, DType::f64);
    for (const Tensor* t : {&d.dq, &d.dk, &d.dv}) {
      std::fill_n(t->data<double>(), t->elements(), 0.0);
    }
    const auto loss = [&] {
      reference::attention_forward(d.forward());
      double sum = 0;
      for (int64_t i = 0; i < d.out.elements(); ++i) sum += element(d.out, i) * element(d.d_out, i);
      return sum;
    };
    loss();
    reference::attention_delta({d.out, d.d_out, d.delta});
    reference::attention_backward(d.backward());
    const auto check = [&](const Tensor& variable, const Tensor& gradient) {
      for (int64_t i = 0; i < variable.elements(); ++i) {
        const double value = element(variable, i), h = 1e-5;
        test::set_element(variable, i, value + h);
        const double up = loss();
        test::set_element(variable, i, value - h);
        const double down = loss();
        test::set_element(variable, i, value);
        EXPECT_NEAR((up - down) / (2 * h), element(gradient, i), 1e-8) << "form " << form;
      }
    };
    check(d.q, d.dq);
    check(d.k, d.dk);
    check(d.v, d.dv);
  }
}

template <class Change>
void expect_refused(Change&& change) {
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_attention});
  OpContext context = machine.context();
  AttentionData data({}, DType::bf16);
  change(data);
  EXPECT_THROW(attention_forward(context, data.forward()), ShapeError);
  EXPECT_THROW(attention_backward(context, data.backward()), ShapeError);
}

Tensor offsets(const std::vector<int64_t>& values) {
  return test::integers(DType::i32, values);
}

TEST(AttentionChecks, RefuseWhatDoesNotFit) {
  const auto refused = [](auto&& change) { expect_refused(change); };
  refused([](auto& d) { d.q = {}; });
  refused([](auto& d) { d.k = host_tensor(DType::bf16, {37, 2, 15}); });
  refused([](auto& d) { d.k = d.v = host_tensor(DType::bf16, {37, 3, 16}); });
  refused([](auto& d) { d.v = host_tensor(DType::bf16, {36, 2, 16}); });
  refused([](auto& d) { d.v = host_tensor(DType::f32, {37, 2, 16}); });
  refused([](auto& d) { d.out = d.d_out = host_tensor(DType::bf16, {37, 2, 15}); });
  refused([](auto& d) { d.lse = host_tensor(DType::f32, {37, 2}); });
  refused([](auto& d) { d.problem.kv_offsets = offsets({0, 20, 37}); });
  refused([](auto& d) { d.problem.diagonal = offsets({0, 0}); });
  refused([](auto& d) { d.problem.dropout = 0.5; });  // without query_index
  refused([](auto& d) { d.problem.window = -1; });
  refused([](auto& d) {
    d.problem.dropout = 0.5, d.problem.query_index = host_tensor(DType::i64, {37});
    d.problem.key_position = offsets({0, 1});
  });
}

// The host reads these values only on a cpu.
TEST(AttentionChecks, RefuseOffsetsOfOtherTokens) {
  expect_refused([](auto& d) { d.problem.q_offsets = offsets({0, 36}); });
  expect_refused([](auto& d) { d.problem.kv_offsets = offsets({0, 38}); });
  expect_refused([](auto& d) {
    d.problem.q_offsets = offsets({0, 40, 37}), d.problem.kv_offsets = offsets({0, 30, 37});
  });
}

}  // namespace
}  // namespace viaduct
