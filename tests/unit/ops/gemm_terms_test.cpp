// Products with terms: compared with the FP64 reference over forms, odd shapes, dtypes, instruction
// sets and places of the terms; rounded once; epilogues read the whole sum; few rows have the bits
// of many; and refusals.

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/activation.h"
#include "ops/costs.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_close;
using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::strided_zeros;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A term's columns of the product, and its contracted size.
struct Place {
  int64_t first, columns, rank;
};

GemmTerm term_at(GemmForm form, DType dtype, int64_t rows, const Place& place, uint64_t seed) {
  const bool forward = form == GemmForm::forward;
  const Shape b = forward ? Shape{place.columns, place.rank} : Shape{place.rank, place.columns};
  return {random_strided(dtype, {rows, place.rank}, 7, seed), random_strided(dtype, b, 3, seed + 1),
          place.first};
}

/// c [m, n] = a · b of k contracted elements, with terms.
GemmArgs product_of(GemmForm form, DType dtype, DType out, int64_t m, int64_t n, int64_t k,
                    const std::vector<Place>& places) {
  const bool forward = form == GemmForm::forward;
  GemmArgs args{form, random_strided(dtype, {m, k}, 3, 1),
                random_strided(dtype, forward ? Shape{n, k} : Shape{k, n}, 5, 2),
                random_strided(out, {m, n}, 2, 3)};
  uint64_t seed = 10;
  for (const Place& place : places) args.terms.push_back(term_at(form, dtype, m, place, seed += 2));
  return args;
}

/// The same product in FP64, and Σ|terms of the sum| of each element.
struct Reference {
  Tensor c, term_sums;
};
Reference reference_of(const GemmArgs& args) {
  GemmArgs exact = args;
  exact.a = to_f64(args.a.tensor()), exact.b = to_f64(args.b.tensor()), exact.c = to_f64(args.c);
  exact.bias = to_f64(args.bias);
  for (GemmTerm& term : exact.terms)
    term.a = to_f64(term.a.tensor()), term.b = to_f64(term.b.tensor());
  GemmArgs sums = exact;
  sums.a = test::magnitudes(exact.a.tensor()), sums.b = test::magnitudes(exact.b.tensor());
  sums.c = test::magnitudes(exact.c);
  if (exact.bias) sums.bias = test::magnitudes(exact.bias);
  for (GemmTerm& term : sums.terms) {
    term.a = test::magnitudes(term.a.tensor()), term.b = test::magnitudes(term.b.tensor());
  }
  reference::gemm(exact);
  reference::gemm(sums);
  return {exact.c, sums.c};
}

class GemmTerms : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (!context_.ops.product_terms) GTEST_SKIP() << "has no products with terms";
  }
  /// The terms' b as the backend packs them.
  void pack(GemmArgs& args) {
    for (GemmTerm& term : args.terms) {
      GemmRequest request = term_request(args, term);
      request.packed = true;
      term.b = operand_in(context_, term.b, gemm_operand_forms(context_.ops, request).b,
                          MemoryTag::other);
    }
  }
  OpMachine machine_{GetParam(), 2, {cpu::add_gemm, cpu::add_activation, cpu::add_elementwise}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, GemmTerms, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GemmTerms, MatchTheReference) {
  struct Case {
    int64_t m, n, k;
    std::vector<Place> places;
  };
  const Case cases[] = {
      {1, 1, 1, {{0, 1, 1}}},
      {5, 130, 70, {{0, 130, 8}}},
      {131, 97, 40, {{0, 97, 33}}},
      {70, 200, 1100, {{0, 64, 16}, {64, 32, 16}, {96, 104, 5}}},  // all begin with a tile
      {67, 150, 33, {{3, 60, 16}, {63, 40, 8}}},                   // inside of tiles; gaps
      {9, 40, 17, {{8, 24, 800}}},                                 // more than one sum
      {3, 48, 0, {{0, 48, 4}}},
      {18, 900, 64, {{0, 900, 4}, {10, 700, 3}}},  // both add to the same columns
  };
  for (const Case& c : cases) {
    for (const GemmForm form : {GemmForm::forward, GemmForm::data_gradient}) {
      for (const DType dtype : test::kKernelDTypes) {
        for (const DType out : {dtype, DType::f32}) {
          for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
            SCOPED_TRACE(testing::Message()
                         << "form " << static_cast<int>(form) << ", " << c.m << " x " << c.n
                         << " x " << c.k << ", " << dtype_name(dtype) << " to " << dtype_name(out));
            GemmArgs args = product_of(form, dtype, out, c.m, c.n, c.k, c.places);
            args.mode = mode;
            if (form == GemmForm::forward && mode == WriteMode::assign)
              args.bias = random_tensor(dtype, {c.n}, 4);
            const Reference expected = reference_of(args);
            int64_t summed = c.k + 2;
            for (const Place& place : c.places) summed += place.rank;
            gemm(context_, args);
            expect_close(args.c, expected.c, static_cast<double>(summed), expected.term_sums);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(GemmTerms, TheSumIsRoundedOnce) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    GemmArgs args = product_of(GemmForm::forward, dtype, DType::f32, 70, 130, 300, {{0, 130, 8}});
    gemm(context_, args);
    const Tensor sums = args.c;
    args.c = strided_zeros(dtype, {70, 130}, 2);
    gemm(context_, args);
    expect_same_bits(args.c, test::converted(sums, dtype));
  }
}

// Packed, each begins with a tile; a thread or several; few rows or many.
TEST_P(GemmTerms, BitsDoNotDependOnFormsRowsAndThreads) {
  constexpr int64_t kRows = 20, kColumns = 304;
  for (const DType dtype : test::kKernelDTypes) {
    for (const GemmForm form : {GemmForm::forward, GemmForm::data_gradient}) {
      for (const int64_t first : {160, 165}) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " from " << first);
        GemmArgs args = product_of(form, dtype, DType::f32, kRows, kColumns, 576,
                                   {{0, 160, 8}, {first, 100, 500}});
        gemm(context_, args);
        for (const int threads : {1, 3}) {
          OpMachine other(GetParam(), threads, {cpu::add_gemm});
          OpContext context = other.context();
          GemmArgs again = args;
          again.c = host_tensor(DType::f32, {kRows, kColumns});
          gemm(context, again);
          expect_same_bits(again.c, args.c);
        }
        for (const int64_t rows : {1, 2, 3, 8, 20}) {
          GemmArgs part = args;
          part.a = args.a.slice(0, 0, rows);
          for (GemmTerm& term : part.terms) term.a = term.a.slice(0, 0, rows);
          for (const bool packed : {false, true}) {
            if (packed) {
              pack(part);
              GemmRequest request = gemm_request(part);
              request.packed = true;
              part.b = operand_in(context_, part.b, gemm_operand_forms(context_.ops, request).b,
                                  MemoryTag::other);
            }
            part.c = host_tensor(DType::f32, {rows, kColumns});
            gemm(context_, part);
            expect_same_bits(part.c, args.c.slice(0, 0, rows));
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(GemmTerms, EpiloguesReadTheWholeSum) {
  for (const DType dtype : test::kKernelDTypes) {
    for (const int64_t rows : {3, 131}) {
      for (const int64_t width : {24, 112}) {  // the second half begins inside of a tile, with one
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << rows << " x " << width);
        // A term of each half, and one of both.
        GemmArgs args = product_of(GemmForm::forward, dtype, dtype, rows, 2 * width, 70,
                                   {{0, width, 8}, {width, width, 16}, {0, 2 * width, 4}});
        const Tensor raised = strided_zeros(dtype, {rows, 2 * width}, 0);
        const Tensor activated = strided_zeros(dtype, {rows, width}, 0);
        GemmArgs apart = args;
        apart.c = raised;
        gemm(context_, apart);
        activation_forward(context_, {ActivationKind::silu, true, raised, activated});
        args.epilogue.activated = strided_zeros(dtype, {rows, width}, 7);
        args.epilogue.gated = true;
        for (const bool packed : {false, true}) {
          if (packed) pack(args);
          gemm(context_, args);
          expect_same_bits(args.c, raised);
          expect_same_bits(args.epilogue.activated, activated);
        }

        GemmArgs added =
            product_of(GemmForm::forward, dtype, dtype, rows, width, 70, {{0, width, 8}});
        const Tensor residual = random_strided(dtype, {rows, width}, 2, 4);
        const Tensor sum = strided_zeros(dtype, {rows, width}, 0);
        gemm(context_, added);
        add(context_, {residual, added.c, sum});
        added.epilogue.residual = residual;
        gemm(context_, added);
        expect_same_bits(added.c, sum);

        GemmArgs back =
            product_of(GemmForm::data_gradient, dtype, dtype, rows, width, 70, {{0, width, 8}});
        gemm(context_, back);
        const Tensor d_raised = strided_zeros(dtype, {rows, 2 * width}, 0);
        back.epilogue.raised = random_strided(dtype, {rows, 2 * width}, 4, 5, 3);
        back.epilogue.gated = true;
        activation_backward(context_,
                            {ActivationKind::silu, true, back.c, back.epilogue.raised, d_raised});
        back.c = back.epilogue.raised;
        gemm(context_, back);
        expect_same_bits(back.c, d_raised);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(GemmTerms, CostTheirOperationsAndOperandsOnce) {
  GemmArgs args = product_of(GemmForm::forward, DType::bf16, DType::bf16, 4, 96, 64, {});
  const Cost without = cost_of(args);
  args.terms.push_back(term_at(GemmForm::forward, DType::bf16, 4, {32, 48, 8}, 1));
  const Cost with = cost_of(args);
  EXPECT_EQ(with.total_flops() - without.total_flops(), 2.0 * 4 * 48 * 8);
  EXPECT_EQ(with.bytes_read - without.bytes_read, 2 * (4 * 8 + 48 * 8));
  EXPECT_EQ(with.bytes_written, without.bytes_written);
}

TEST_P(GemmTerms, RefuseWhatDoesNotFit) {
  const GemmArgs plain =
      product_of(GemmForm::forward, DType::bf16, DType::bf16, 4, 40, 8, {{8, 16, 4}});
  const auto refused = [&](const GemmArgs& args, const std::string& text) {
    EXPECT_THAT([&] { gemm(context_, args); }, ThrowsMessage<ShapeError>(HasSubstr(text)));
  };
  GemmArgs args = plain;
  args.terms[0].first_column = 25;
  refused(args, "gemm term: columns [25, 41) of a product of 40");
  args = plain;
  args.terms[0].a = host_tensor(DType::bf16, {3, 4});
  refused(args, "expected a of shape [4, 4], got bf16 [3, 4]");
  args = plain;
  args.terms[0].b = host_tensor(DType::bf16, {16, 5});
  refused(args, "expected b with 4 contracted elements");
  args = plain;
  args.terms[0].b = host_tensor(DType::f32, {16, 4});
  refused(args, "expected b of dtype bf16");
  args = plain;
  args.terms[0] = term_at(GemmForm::forward, DType::bf16, 4, {0, 16, kMostTermDepth + 1}, 1);
  refused(args, "contracted elements of all terms");
  args = plain;
  args.quantization.scaling = Scaling::tensor;
  refused(args, "");
}

}  // namespace
}  // namespace viaduct
