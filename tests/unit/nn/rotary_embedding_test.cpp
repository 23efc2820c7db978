#include "nn/rotary_embedding.h"

#include <gtest/gtest.h>

#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::element;

/// Composed of other ops, out of place: the same numbers within rounding, and x is unchanged.
TEST(RotaryEmbedding, ComposedIsFused) {
  for (const CpuIsa isa : test::testable_isas()) {
    test::OpMachine machine(isa, 2, {cpu::add_rotary, cpu::add_elementwise, cpu::add_embedding});
    OpContext context = machine.context();
    for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      for (const int64_t width : {12, 20}) {  // all of a head of 20, or part of it
        for (const bool inverse : {false, true}) {
          const RotaryTable table = make_rotary_table(machine.device(), {.width = width}, 50,
                                                      dtype == DType::f64 ? dtype : DType::f32);
          const Tensor positions = test::integers(DType::i32, {3, 0, 49, 7, 7});
          const Tensor x = test::random_strided(dtype, {5, 3, 20}, 4, 1);
          const Tensor before = test::to_f64(x);
          const Tensor composed = RotaryEmbedding{&table, false}.apply(
              context, positions, x, MemoryTag::activations, inverse);
          test::expect_same_bits(test::to_f64(x), before);
          const Tensor fused = RotaryEmbedding{&table, true}.apply(context, positions, x,
                                                                   MemoryTag::activations, inverse);
          EXPECT_EQ(fused.raw(), x.raw());
          const Tensor terms = host_tensor(DType::f64, x.shape());
          std::fill_n(terms.data<double>(), terms.elements(), 2.0);
          test::expect_close(composed, test::to_f64(fused), 2, terms);
          EXPECT_NE(element(composed, 0), element(before, 0));
        }
      }
    }
  }
}

TEST(RotaryEmbedding, TheRecordHasOneOpOrNine) {
  test::OpMachine machine(CpuIsa::avx2, 1,
                          {cpu::add_rotary, cpu::add_elementwise, cpu::add_embedding});
  OpContext context = machine.context();
  const RotaryTable table = make_rotary_table(machine.device(), {.width = 8}, 10, DType::f32);
  const Tensor positions = test::integers(DType::i32, {1, 2});
  const auto bytes = [&](bool fused, size_t ops) {
    StepRecord record;
    machine.device().set_record(&record);
    RotaryEmbedding{&table, fused}.apply(
        context, positions, test::random_tensor(DType::bf16, {2, 2, 8}, 1), MemoryTag::activations);
    machine.device().set_record(nullptr);
    EXPECT_EQ(record.ops().size(), ops);
    int64_t sum = 0;
    for (const OpEntryRecord& op : record.ops()) sum += op.cost.bytes_read + op.cost.bytes_written;
    return sum;
  };
  EXPECT_GT(bytes(false, 9), 4 * bytes(true, 1));
}

}  // namespace
}  // namespace viaduct
