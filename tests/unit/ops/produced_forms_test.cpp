// What norms and activations make of their results besides: bit by bit what the ops make of the
// finished matrix, over instruction sets, dtypes, odd shapes and strides; and refusals. The tests
// run on the emulated GPU too (tests/cuda_host).

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "ops/quantized_forms.h"
#include "ops/table.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::set_element;
using test::strided_zeros;
using testing::HasSubstr;
using testing::ThrowsMessage;

OperandForm row_wise(Scaling scaling) {
  return quantized_forms(GemmForm::forward, {scaling, DType::e4m3, DType::e5m2}).a;
}

class ProducedFormsTest : public testing::TestWithParam<CpuIsa> {
 protected:
  /// All that can be asked for of a matrix, one request after the other.
  std::vector<FormsRequest> requests(DType dtype, const Shape& matrix, bool product) const {
    std::vector<FormsRequest> list;
    for (const Scaling scaling : {Scaling::none, Scaling::mx, Scaling::blocks}) {
      for (const int magnitudes : {0, 1, 2}) {
        FormsRequest request{dtype, matrix, magnitudes, {}, product};
        if (magnitudes == 2 && matrix[0] % 16 != 0) continue;
        if (scaling != Scaling::none) request.operand = row_wise(scaling);
        list.push_back(request);
      }
    }
    return list;
  }
  /// Compares `forms` with what the ops make of the finished matrix.
  void expect_made(const ProducedForms& forms, const Tensor& matrix) {
    if (forms.amax) {
      const Tensor amax = host_tensor(DType::f32, forms.amax.shape());
      largest_magnitude(context_, {matrix, amax.slice(0, 0, 1)});
      if (amax.dim(0) == 2) largest_magnitude(context_, {matrix, amax.slice(0, 1, 1), true});
      expect_same_bits(forms.amax, amax);
    }
    if (forms.operand) {
      const Operand operand =
          operand_in(context_, matrix, forms.operand.form(), MemoryTag::activations);
      expect_same_bits(forms.operand.scales(), operand.scales());
      const auto* a = static_cast<const uint8_t*>(forms.operand.values().raw());
      const auto* b = static_cast<const uint8_t*>(operand.values().raw());
      for (int64_t i = 0; i < matrix.elements(); ++i) ASSERT_EQ(int{a[i]}, int{b[i]}) << i;
    }
  }
  ProducedForms allocate(const FormsRequest& request) {
    return allocate_forms(context_, request, MemoryTag::activations);
  }

  OpMachine machine_{
      GetParam(),
      3,
      {cpu::add_gemm, cpu::add_largest_magnitude, cpu::add_norm, cpu::add_activation}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, ProducedFormsTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

/// Unused elements after every row, in turn: some, and as many as make its rows begin at multiples
/// of 8 elements, which kernels of a GPU read at once.
class Gaps {
 public:
  int64_t next(int64_t width) { return calls_++ % 2 == 0 ? 3 : (8 - width % 8) % 8; }

 private:
  int calls_ = 0;
};

TEST_P(ProducedFormsTest, OfNorms) {
  Gaps gaps;
  for (const DType dtype : test::kKernelDTypes) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 64}, Shape{48, 300}, Shape{48, 1100},
                               Shape{32, 2216}, Shape{0, 8}}) {
      for (const FormsRequest& request : requests(dtype, shape, false)) {
        const int64_t gap = gaps.next(shape[1]);
        NormForwardArgs args;
        args.x = random_strided(dtype, shape, gap, 1, 2);
        args.weight = random_tensor(dtype, {shape[1]}, 2);
        args.y = strided_zeros(dtype, shape, gap);
        args.forms = allocate(request);
        SCOPED_TRACE(describe(args.y) + ", " + std::to_string(request.magnitudes) + " and " +
                     describe(request.operand));
        EXPECT_EQ(args.forms.amax.defined(), request.magnitudes > 0);
        EXPECT_EQ(args.forms.operand.defined(), !request.operand.plain());
        norm_forward(context_, args);
        expect_made(args.forms, args.y);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(ProducedFormsTest, OfActivations) {
  Gaps gaps;
  for (const DType dtype : test::kKernelDTypes) {
    for (const Shape& shape : {Shape{3, 64}, Shape{48, 300}, Shape{32, 2216}}) {
      for (const bool gated : {false, true}) {
        for (const FormsRequest& request : requests(dtype, shape, false)) {
          const int64_t gap = gaps.next(shape[1]);
          ActivationForwardArgs args{ActivationKind::silu, gated};
          args.in = random_strided(dtype, {shape[0], shape[1] * (gated ? 2 : 1)}, gap, 1, 2);
          args.out = strided_zeros(dtype, shape, gap);
          args.forms = allocate(request);
          SCOPED_TRACE(describe(args.out) + (gated ? " gated, " : ", ") +
                       describe(request.operand));
          activation_forward(context_, args);
          expect_made(args.forms, args.out);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// A GPU has at most 2,048 blocks for these kernels, of 8 or 16 rows here.
TEST_P(ProducedFormsTest, OfMoreRowsThanBlocks) {
  const Shape shape{16 * 2049, 8};
  const Tensor x = random_tensor(DType::bf16, shape, 1, 0.5);
  set_element(x, 0, 4);  // of the first rows, whose block takes others after them
  ActivationForwardArgs activation{ActivationKind::relu, false, x};
  activation.out = host_tensor(DType::bf16, shape);
  activation.forms = allocate({DType::bf16, shape, 1, row_wise(Scaling::mx)});
  activation_forward(context_, activation);
  expect_made(activation.forms, activation.out);
  NormForwardArgs norm;
  norm.x = x, norm.y = host_tensor(DType::bf16, shape);
  norm.weight = random_tensor(DType::bf16, {shape[1]}, 2);
  norm.forms = allocate({DType::bf16, shape, 2});
  norm_forward(context_, norm);
  expect_made(norm.forms, norm.y);
}

// Blocks of products see a part of the rows and of the columns.
TEST_P(ProducedFormsTest, OfActivationsInProducts) {
  for (const DType dtype : test::kKernelDTypes) {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{5, 97, 40},
                                  {8, 300, 16},
                                  {64, 128, 64},
                                  {131, 97, 40},
                                  {272, 296, 24},
                                  {0, 8, 4}}) {
      for (const bool gated : {false, true}) {
        for (const FormsRequest& request : requests(dtype, {m, n}, true)) {
          const int64_t columns = gated ? 2 * n : n;
          GemmArgs args{GemmForm::forward, random_tensor(dtype, {m, k}, 1),
                        random_tensor(dtype, {columns, k}, 2), host_tensor(dtype, {m, columns})};
          args.epilogue.activated = strided_zeros(dtype, {m, n}, 7);
          args.epilogue.gated = gated;
          args.epilogue.forms = allocate(request);
          SCOPED_TRACE(describe(args.epilogue.activated) + (gated ? " gated, " : ", ") +
                       describe(request.operand));
          // Products on the cpu have blocks of 32 columns; on a GPU the activation is a launch.
          const bool wide = request.operand == row_wise(Scaling::blocks);
          const bool whole_rows = context_.ops.traits.name.starts_with("cuda");
          EXPECT_EQ(args.epilogue.forms.operand.defined(),
                    !request.operand.plain() && (whole_rows || (!wide && m > 8)));
          gemm(context_, args);
          expect_made(args.epilogue.forms, args.epilogue.activated);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(ProducedFormsTest, NotFiniteElementsAreSeen) {
  for (const double odd : {double{INFINITY}, double{NAN}}) {
    ActivationForwardArgs args{ActivationKind::relu, true};
    args.in = random_tensor(DType::bf16, {32, 600}, 1);
    set_element(args.in, 7 * 600 + 450, odd);
    args.out = host_tensor(DType::bf16, {32, 300});
    args.forms = allocate({DType::bf16, {32, 300}, 2, row_wise(Scaling::mx)});
    activation_forward(context_, args);
    expect_made(args.forms, args.out);
    EXPECT_TRUE(std::isinf(args.forms.amax.data<float>()[0]));
  }
}

TEST_P(ProducedFormsTest, OthersAreNotMade) {
  const FormsRequest all{DType::bf16, {32, 64}, 1, row_wise(Scaling::mx)};
  ActivationForwardArgs args{ActivationKind::relu, false};
  args.in = random_tensor(DType::bf16, {32, 64}, 1);
  args.out = host_tensor(DType::bf16, {32, 64});
  const auto refused = [&](const ProducedForms& forms, const std::string& why) {
    args.forms = forms;
    EXPECT_THAT([&] { activation_forward(context_, args); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  // Scales of column-wise groups need all rows, those of the matrix its largest magnitude.
  FormsRequest column_wise = all;
  column_wise.operand.orientation = Orientation::column_wise;
  EXPECT_FALSE(allocate(column_wise).operand.defined());
  refused({{},
           allocate_operand(context_, column_wise.operand, DType::bf16, {32, 64},
                            MemoryTag::activations)},
          "expected a row-wise form");
  FormsRequest whole = all;
  whole.operand = row_wise(Scaling::tensor);
  EXPECT_FALSE(allocate(whole).operand.defined());
  refused({host_tensor(DType::f32, {3})}, "expected f32 [1] or [2]");
  FormsRequest f64 = all;
  f64.dtype = DType::f64;
  EXPECT_FALSE(allocate(f64).any());
  // A table without producers makes nothing.
  OpTable none = context_.ops;
  none.produced_forms = nullptr;
  OpContext context{context_.device, none};
  EXPECT_FALSE(allocate_forms(context, all, MemoryTag::activations).any());
  args.forms = allocate(all);
  EXPECT_THAT([&] { activation_forward(context, args); },
              ThrowsMessage<DeviceError>(HasSubstr("does not make")));
  // An epilogue without an activation has no matrix to make them of.
  GemmArgs product{GemmForm::forward, random_tensor(DType::bf16, {32, 8}, 1),
                   random_tensor(DType::bf16, {64, 8}, 2), host_tensor(DType::bf16, {32, 64})};
  product.epilogue.residual = random_tensor(DType::bf16, {32, 64}, 3);
  product.epilogue.forms = allocate(all);
  EXPECT_THAT([&] { gemm(context_, product); },
              ThrowsMessage<ShapeError>(HasSubstr("there is none")));
}

}  // namespace
}  // namespace viaduct
