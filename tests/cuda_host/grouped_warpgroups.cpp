// Products of experts by warpgroups, of more tiles and steps than the tests of all devices have:
// experts without rows, with few, with more than a tile; results compared with the FP64 reference.

#include <gtest/gtest.h>

#include "ops/reference/reference.h"
#include "ops/reference/scaled_operand.h"
#include "unit/ops/grouped_quantized_cases.h"

namespace viaduct {
namespace {

using namespace grouped_gemm_test;

/// More steps than places in the ring of tiles, and more tiles than one along a dim of c.
std::vector<Case> many_tiles(int64_t narrow, int64_t wide, int64_t deep) {
  const std::vector<int64_t> rows{0, 150, 150, 157, 230};
  return {{GemmForm::forward, narrow, deep, rows, 9},
          {GemmForm::data_gradient, deep, wide, rows, 9},
          {GemmForm::weight_gradient, narrow, wide, {0, 0, 7, 7, 7 + deep + 3}, 9}};
}

class GroupedWarpgroups : public GroupedQuantizedBase {
 protected:
  std::string_view kernel(const GroupedGemmArgs& args) {
    return machine_.table().grouped_gemm.choose(args, machine_.table().traits).kernel;
  }
  static double depth(const Case& c) {
    const int64_t deep = c.form == GemmForm::forward         ? c.k
                         : c.form == GemmForm::data_gradient ? c.n
                                                             : c.offsets.back();
    return static_cast<double>(deep);
  }
};

INSTANTIATE_TEST_SUITE_P(Isa, GroupedWarpgroups, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GroupedWarpgroups, TensorsOfManyTiles) {
  constexpr std::pair<DType, DType> kFormats[] = {{DType::bf16, DType::bf16},
                                                  {DType::f16, DType::f32}};
  for (const Case& c : many_tiles(136, 264, 328)) {
    for (const auto& [dtype, out] : kFormats) {
      const WriteMode mode = out == DType::f32 ? WriteMode::accumulate : WriteMode::assign;
      const GroupedGemmArgs args = make_args(c, dtype, out, mode);
      EXPECT_EQ(kernel(args), "grouped_warpgroups");
      GroupedGemmArgs exact = args, sums = args;
      exact.a = test::to_f64(args.a), exact.b = test::to_f64(args.b.tensor());
      exact.c = test::to_f64(args.c);
      sums.a = test::magnitudes(args.a), sums.b = test::magnitudes(args.b.tensor());
      sums.c = test::magnitudes(args.c);
      grouped_gemm(context_, args);
      reference::grouped_gemm(exact);
      reference::grouped_gemm(sums);
      test::expect_close(args.c, exact.c, depth(c), sums.c);
    }
  }
}

TEST_P(GroupedWarpgroups, CodesOfManyTiles) {
  for (const Scheme& scheme : {kSchemes[0], kSchemes[1]}) {
    SCOPED_TRACE(scheme.name);
    for (const Case& c : many_tiles(144, 272, 528)) {
      const GroupedGemmArgs args = quantized(c, scheme.quantization, WriteMode::assign);
      EXPECT_TRUE(kernel(args).ends_with("_warpgroups")) << kernel(args);
      GroupedGemmArgs exact = args, sums = args;
      for (GroupedGemmArgs* each : {&exact, &sums})
        each->c = host_tensor(DType::f64, args.c.shape());
      grouped_gemm(context_, args);
      reference::scaled_grouped_gemm(exact);
      reference::scaled_grouped_gemm(sums, true);
      const int64_t rows = c.form == GemmForm::weight_gradient ? args.c.dim(0) : c.offsets.back();
      const auto of_experts = [&](const Tensor& all) { return all.slice(0, 0, rows); };
      test::expect_close(of_experts(args.c), of_experts(exact.c), depth(c), of_experts(sums.c));
    }
  }
}

/// Rows with a gap, and operands that are parts of larger tensors.
TEST_P(GroupedWarpgroups, StridedRows) {
  const Case c{GemmForm::forward, 24, 72, {0, 30, 30, 31, 75}};
  const GroupedGemmArgs dense = make_args(c, DType::bf16, DType::bf16, WriteMode::assign);
  GroupedGemmArgs args = dense;
  args.a = test::strided_zeros(DType::bf16, dense.a.shape(), 8);
  args.c = test::strided_zeros(DType::bf16, dense.c.shape(), 16);
  test::set_values(args.a, test::values(dense.a));
  EXPECT_EQ(kernel(args), "grouped_warpgroups");
  grouped_gemm(context_, dense);
  grouped_gemm(context_, args);
  EXPECT_EQ(test::values(args.c), test::values(dense.c));
  // Runs of 16 bytes that are not aligned are read by another kernel.
  args.a = test::strided_zeros(DType::bf16, dense.a.shape(), 4);
  EXPECT_EQ(kernel(args), "grouped_tiles");
}

}  // namespace
}  // namespace viaduct
