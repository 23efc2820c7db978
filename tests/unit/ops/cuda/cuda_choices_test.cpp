// The choices of a GPU's ops: kernels, launches, workspace and cost, from shapes and dtypes alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/fields_of.h"
#include "ops/costs.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/quantized_forms.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

double flops(const Choice& choice, FlopFormat format) {
  return choice.cost.flops[static_cast<size_t>(format)];
}

class CudaChoices : public testing::TestWithParam<CudaTarget> {
 protected:
  template <class Args>
  Choice choose(const OpEntry<Args>& entry, const Args& args) {
    return entry.choose(args, table_.traits);
  }
  Tensor sized(DType dtype, const Shape& shape) {
    return device_->allocate(dtype, shape, MemoryTag::other);
  }
  std::unique_ptr<Device> device_ = make_sim_device();
  OpTable table_ = cuda_ops(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Targets, CudaChoices, testing::ValuesIn(kCudaTargets),
                         [](const auto& info) {
                           return std::string(cuda_target_name(info.param));
                         });

TEST_P(CudaChoices, ProductsCountInTheirFormatAndPayForEpilogues) {
  const int64_t m = 64, n = 96, k = 32;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    GemmArgs args{.form = GemmForm::forward,
                  .a = sized(dtype, {m, k}),
                  .b = sized(dtype, {n, k}),
                  .c = sized(dtype, {m, n})};
    const Choice plain = choose(table_.gemm, args);
    const FlopFormat format = dtype == DType::bf16  ? FlopFormat::bf16
                              : dtype == DType::f16 ? FlopFormat::f16
                                                    : FlopFormat::f32;
    EXPECT_EQ(flops(plain, format), 2.0 * m * n * k);
    EXPECT_EQ(plain.cost.total_flops(), 2.0 * m * n * k);
    EXPECT_EQ(plain.launches, 1);
    EXPECT_EQ(plain.workspace_bytes, 32 << 20);
    args.epilogue.residual = sized(dtype, {m, n});
    const Choice residual = choose(table_.gemm, args);
    EXPECT_EQ(residual.launches, 2);
    const int64_t c = args.c.bytes();
    EXPECT_EQ(residual.cost.bytes_read, plain.cost.bytes_read + 2 * c);
    EXPECT_EQ(residual.cost.bytes_written, plain.cost.bytes_written + c);
  }
}

TEST_P(CudaChoices, TheProductOfAnActivationsGradientHasAPlaceOfItsOwn) {
  const int64_t m = 64, n = 96, k = 32;
  GemmArgs args{.form = GemmForm::data_gradient,
                .a = sized(DType::bf16, {m, n}),
                .b = sized(DType::bf16, {n, k}),
                .c = sized(DType::bf16, {m, 2 * k})};
  args.epilogue.raised = args.c;
  args.epilogue.gated = true;
  const Choice choice = choose(table_.gemm, args);
  EXPECT_EQ(choice.workspace_bytes, (32 << 20) + m * k * 2);
  EXPECT_EQ(choice.launches, 2);
  EXPECT_EQ(flops(choice, FlopFormat::bf16), 2.0 * m * n * k);
}

// The kernel that makes a matrix writes its codes and largest magnitudes too, and reads no more.
TEST_P(CudaChoices, OtherFormsOfAResultCostTheirBytesAlone) {
  const OpContext context{*device_, table_};
  const Shape shape{64, 256};
  FormsRequest request{DType::bf16, shape, 2};
  request.operand = quantized_forms(GemmForm::forward, {Scaling::mx}).a;
  const ProducedForms both = allocate_forms(context, request, MemoryTag::other);
  const int64_t amax = 2 * 4, codes = 64 * 256 + 64 * 256 / 32;
  const auto expect_forms = [&](const auto& entry, auto& args, ProducedForms& forms) {
    const Choice plain = choose(entry, args);
    forms = both;
    const Choice all = choose(entry, args);
    EXPECT_EQ(all.launches, plain.launches + 1) << "magnitudes of blocks are joined";
    EXPECT_EQ(all.workspace_bytes, plain.workspace_bytes + 2 * 2048 * 4);
    EXPECT_EQ(all.cost.bytes_read, plain.cost.bytes_read);
    EXPECT_EQ(all.cost.bytes_written, plain.cost.bytes_written + amax + codes);
    forms.amax = {};
    const Choice operand = choose(entry, args);
    EXPECT_EQ(operand.launches, plain.launches);
    EXPECT_EQ(operand.workspace_bytes, plain.workspace_bytes);
    EXPECT_EQ(operand.cost.bytes_written, plain.cost.bytes_written + codes);
  };
  const Tensor matrix = sized(DType::bf16, shape);
  NormForwardArgs norm;
  norm.x = norm.y = matrix, norm.weight = sized(DType::bf16, {256});
  expect_forms(table_.norm_forward, norm, norm.forms);
  ActivationForwardArgs activation{ActivationKind::silu, false, matrix, matrix};
  expect_forms(table_.activation_forward, activation, activation.forms);
  GemmArgs product{GemmForm::forward, matrix, sized(DType::bf16, {256, 256}),
                   sized(DType::bf16, shape)};
  product.epilogue.activated = matrix;
  expect_forms(table_.gemm, product, product.epilogue.forms);
}

TEST_P(CudaChoices, OtherFormsAreThoseOfGroupsOfARow) {
  FormsRequest request{DType::bf16, {64, 256}, 1};
  const auto made = [&](const Quantization& how, DType dtype = DType::bf16) {
    request.operand = quantized_forms(GemmForm::forward, how).a;
    request.dtype = dtype;
    return table_.produced_forms(request, table_.traits);
  };
  for (const Scaling scaling : {Scaling::mx, Scaling::blocks}) {
    EXPECT_EQ(made({scaling}).operand, request.operand);
    EXPECT_EQ(made({scaling}, DType::f64).magnitudes, 0);
    EXPECT_TRUE(made({scaling}, DType::f64).operand.plain());
    request.operand.orientation = Orientation::column_wise;
    EXPECT_TRUE(table_.produced_forms(request, table_.traits).operand.plain());
  }
  EXPECT_TRUE(made({Scaling::tensor}).operand.plain()) << "its scale needs the finished matrix";
  EXPECT_EQ(made({Scaling::tensor}).magnitudes, 1);
  EXPECT_TRUE(made({Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}).operand.plain());
}

TEST_P(CudaChoices, ABiasOfAnotherFormatIsALaunchOfItsOwn) {
  GemmArgs args{.form = GemmForm::forward,
                .a = sized(DType::bf16, {8, 16}),
                .b = sized(DType::bf16, {24, 16}),
                .c = sized(DType::bf16, {8, 24}),
                .bias = sized(DType::bf16, {24})};
  EXPECT_EQ(choose(table_.gemm, args).launches, 1);
  args.bias = sized(DType::f32, {24});
  EXPECT_EQ(choose(table_.gemm, args).launches, 2);
}

TEST_P(CudaChoices, AttentionsBackwardMakesTheScoresAgain) {
  // Heads up to 128 dims, and wider ones, whose key gradients are made in two parts.
  for (const auto& [width, products] : {std::pair<int64_t, int>(64, 7), {256, 9}}) {
    const int64_t tokens = 128, heads = 4;
    const Tensor q = sized(DType::bf16, {tokens, heads, width}),
                 sums = sized(DType::f32, {tokens, heads, width}),
                 rows = sized(DType::f32, {heads, tokens});
    AttentionProblem problem;
    problem.visible_pairs = 1000;
    const AttentionBackwardArgs args{problem, q, q, q, q, rows, rows, sums, sums, sums};
    if (width > 192 && cuda_block_memory_bytes(GetParam()) < 100 * 1024) {
      EXPECT_THAT([&] { choose(table_.attention_backward, args); },
                  ThrowsMessage<DeviceError>(
                      testing::AllOf(HasSubstr("has 101376 bytes of shared memory"),
                                     HasSubstr("model.attention_backend to unfused"))));
      continue;
    }
    const Choice choice = choose(table_.attention_backward, args);
    EXPECT_EQ(choice.launches, 2);
    EXPECT_EQ(choice.workspace_bytes, 0);
    const auto of_product = 2.0 * 1000 * static_cast<double>(heads * width);
    EXPECT_DOUBLE_EQ(flops(choice, FlopFormat::bf16), of_product * products);
    const AttentionForwardArgs forward{problem, q, q, q, q, rows};
    EXPECT_DOUBLE_EQ(flops(choose(table_.attention_forward, forward), FlopFormat::bf16),
                     of_product * 2);
  }
}

TEST_P(CudaChoices, ProductsOfAScoreMatrixAreMadeByMatrixUnits) {
  AttentionProblem problem;
  problem.max_keys = 100;
  const auto matrix = sized(DType::f32, {8, 128, 100});
  const auto kernel = [&](ScoreProduct form, const Tensor& queries, const Tensor& keys) {
    const Choice choice = choose(table_.score_product, {form, problem, matrix, queries, keys});
    const FlopFormat format = choice.kernel == "tiles_f32" ? FlopFormat::f32
                              : queries.dtype() == DType::f16 || keys.dtype() == DType::f16
                                  ? FlopFormat::f16
                                  : FlopFormat::bf16;
    const auto width = static_cast<double>(queries.dim(2));
    EXPECT_DOUBLE_EQ(flops(choice, format), 2.0 * 8 * 128 * 100 * width);
    EXPECT_EQ(choice.launches, 1);
    return choice.kernel;
  };
  const auto heads = [&](DType dtype, int64_t width) { return sized(dtype, {128, 8, width}); };
  const Tensor sums = heads(DType::f32, 64);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x = heads(dtype, 64), wide = heads(dtype, 264);
    EXPECT_EQ(kernel(ScoreProduct::scores, x, x), "tiles_mma");
    EXPECT_EQ(kernel(ScoreProduct::values, x, x), "tiles_mma");
    EXPECT_EQ(kernel(ScoreProduct::values, sums, x), "tiles_mma");
    EXPECT_EQ(kernel(ScoreProduct::keys, x, sums), "tiles_mma");
    EXPECT_EQ(kernel(ScoreProduct::scores, wide, wide), "tiles_f32");
    // A narrow matrix is read in half of the bytes.
    const auto bytes = [&](DType of) {
      const ScoreProductArgs args{ScoreProduct::values, problem, sized(of, {8, 128, 100}), sums, x};
      const Choice choice = choose(table_.score_product, args);
      EXPECT_EQ(choice.kernel, "tiles_mma");
      return choice.cost.bytes_read;
    };
    EXPECT_EQ(bytes(DType::f32) - bytes(dtype), 2 * 8 * 128 * 100);
    EXPECT_EQ(kernel(ScoreProduct::scores, x, sums), "tiles_f32");
  }
  EXPECT_EQ(kernel(ScoreProduct::scores, sums, sums), "tiles_f32");
}

TEST_P(CudaChoices, WhatIsComposedOfOpsIsFp32) {
  AttentionProblem problem;
  const ScoreRowsArgs softmax{
      .problem = problem, .x = sized(DType::f32, {2, 8, 16}), .lse = sized(DType::f32, {2, 8})};
  EXPECT_EQ(choose(table_.score_rows, softmax).cost.bytes_read, 2 * 8 * 16 * 4);
  EXPECT_THAT(
      [&] {
        choose(table_.reduce_rows,
               {RowValue::sum, sized(DType::f64, {2, 8}), sized(DType::f64, {2}), 8});
      },
      ThrowsMessage<DeviceError>(
          testing::AllOf(HasSubstr("softmax"), HasSubstr("f64"), HasSubstr("f32"))));
}

TEST_P(CudaChoices, WhatHasNoKernelIsRefusedWithWhatThereIs) {
  const Tensor q = sized(DType::bf16, {8, 2, 288}), rows = sized(DType::f32, {2, 8});
  EXPECT_THAT(
      [&] {
        choose(table_.attention_forward, {{}, q, q, q, q, rows});
      },
      ThrowsMessage<DeviceError>(testing::AllOf(HasSubstr("256"), HasSubstr("288"))));
  NormForwardArgs norm;
  norm.x = norm.y = sized(DType::f64, {4, 8});
  EXPECT_THAT([&] { choose(table_.norm_forward, norm); },
              ThrowsMessage<DeviceError>(testing::AllOf(HasSubstr(table_.traits.name),
                                                        HasSubstr("f64"), HasSubstr("bf16"))));
}

TEST_P(CudaChoices, PartsOfSumsOverRowsDependOnTheShapeAlone) {
  const auto norm = [&](int64_t tokens) {
    NormBackwardArgs args;
    args.x = args.dy = args.dx = sized(DType::bf16, {tokens, 256});
    args.weight = sized(DType::bf16, {256}), args.d_weight = sized(DType::f32, {256});
    args.rstd = sized(DType::f32, {tokens});
    return choose(table_.norm_backward, args);
  };
  EXPECT_EQ(norm(64).workspace_bytes, 256 * 4);
  EXPECT_EQ(norm(65).workspace_bytes, 2 * 256 * 4);
  EXPECT_EQ(norm(1 << 20).workspace_bytes, 128 * 256 * 4);  // bounded
  const auto sum = [&](int64_t tokens) {
    return choose(table_.column_sum, {sized(DType::bf16, {tokens, 10}), sized(DType::f32, {10})});
  };
  EXPECT_EQ(sum(1 << 20).workspace_bytes, 128 * 10 * 4);
  EXPECT_EQ(sum(640).launches, 2);
}

TEST_P(CudaChoices, GradientsOfEmbeddingsAreSortedByAsManyBitsAsRowsNeed) {
  const auto launches = [&](int64_t rows, WriteMode mode) {
    EmbeddingBackwardArgs args{sized(DType::i32, {4096}), sized(DType::bf16, {4096, 64}),
                               sized(DType::f32, {rows, 64})};
    args.mode = mode;
    return choose(table_.embedding_backward, args).launches;
  };
  EXPECT_EQ(launches(200, WriteMode::accumulate), 2 + 1);
  EXPECT_EQ(launches(50257, WriteMode::accumulate), 4 + 1);
  EXPECT_EQ(launches(128256, WriteMode::assign), 6 + 1 + 1);
}

TEST_P(CudaChoices, AListOfRunsIsOneLaunch) {
  AdamWListArgs list;
  const Tensor run = sized(DType::f32, {100}), weight = sized(DType::bf16, {100});
  for (int i = 0; i < 5; ++i) {
    AdamWArgs args;
    args.master = args.gradient = args.first = args.second = run;
    args.weight = weight, args.scalars = sized(DType::f64, {kStepScalars});
    list.runs.push_back(args);
  }
  const Choice choice = choose(table_.adamw, list);
  EXPECT_EQ(choice.launches, 1);
  EXPECT_EQ(choice.cost.bytes_written, 5 * (3 * 400 + 200));
  list.runs[2].weight_decay = 0.1;  // runs 0 and 1, run 2, runs 3 and 4
  EXPECT_EQ(choose(table_.adamw, list).launches, 3);
  list.runs.assign(90, list.runs[0]);  // a kernel's parameters hold 40
  EXPECT_EQ(choose(table_.adamw, list).launches, 3);
}

TEST_P(CudaChoices, SumsHaveAStateForEachBlock) {
  const auto sums = [&](const std::vector<int64_t>& sizes) {
    ReproducibleSumsArgs args;
    for (const int64_t size : sizes) args.x.push_back(sized(DType::f32, {size}));
    args.state = sized(DType::f64, {kReproducibleSumSize});
    return choose(table_.reproducible_sums, args);
  };
  EXPECT_EQ(sums({100}).workspace_bytes, 64);
  EXPECT_EQ(sums({65537, 100, 0}).workspace_bytes, 3 * 64);
  EXPECT_EQ(sums({65537, 100, 0}).launches, 2);
  EXPECT_EQ(sums(std::vector<int64_t>(130, 10)).launches, 3) << "128 runs in one launch";
  EXPECT_EQ(sums({int64_t{1} << 27}).workspace_bytes, 683 * 64) << "blocks of 3 · 2^16";
}

TEST_P(CudaChoices, RoutersHaveAsManyGroupsAsKernelsTake) {
  RouteArgs args;
  args.rule.groups = 256, args.rule.group_topk = 2;
  args.logits = sized(DType::f32, {10, 1024});
  args.probabilities = sized(DType::f32, {10, 2}), args.choice = sized(DType::i32, {10, 2});
  EXPECT_EQ(choose(table_.route, args).launches, 1);
  args.rule.groups = 512;
  EXPECT_THAT([&] { choose(table_.route, args); },
              ThrowsMessage<DeviceError>(HasSubstr("up to 256 groups of experts, found 512")));
}

TEST_P(CudaChoices, ADeviceThatExecutesIsRefused) {
  const auto device = make_cpu_device(1);
  OpContext context{*device, table_};
  const Tensor x = host_tensor(DType::f32, {4});
  EXPECT_THAT(
      [&] {
        fill(context, {x, 1});
      },
      ThrowsMessage<DeviceError>(HasSubstr("not implemented")));
}

TEST(CudaTargets, AreFoundByTheirNames) {
  for (const CudaTarget target : kCudaTargets)
    EXPECT_EQ(cuda_target_of(cuda_target_name(target)), target);
  EXPECT_FALSE(cuda_target_of("sm_90"));
}

}  // namespace
}  // namespace viaduct
