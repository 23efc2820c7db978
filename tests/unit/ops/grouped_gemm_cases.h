#pragma once
// Experts with different numbers of rows, with none, and one expert with all rows.

#include "ops/grouped_gemm.h"
#include "support/op_testing.h"

namespace viaduct::grouped_gemm_test {

inline constexpr int64_t kExperts = 4;

struct Case {
  GemmForm form;
  int64_t n, k;
  std::vector<int64_t> offsets;
  int64_t beyond = 0;  // rows of no expert
};

inline std::vector<Case> cases() {
  std::vector<Case> list;
  for (const GemmForm form :
       {GemmForm::forward, GemmForm::data_gradient, GemmForm::weight_gradient}) {
    list.push_back({form, 24, 40, {0, 5, 5, 90, 97}});       // one without rows
    list.push_back({form, 70, 33, {0, 0, 0, 0, 130}});       // all rows with the last expert
    list.push_back({form, 72, 130, {0, 1, 110, 230, 231}});  // one row, and more than a block
    list.push_back({form, 16, 16, {0, 0, 0, 0, 0}});         // no rows at all
    list.push_back({form, 24, 40, {0, 5, 5, 60, 70}, 7});
  }
  return list;
}

inline GroupedGemmArgs make_args(const Case& c, DType dtype, DType out, WriteMode mode) {
  const int64_t rows = c.offsets.back() + c.beyond;
  const bool gradient = c.form == GemmForm::weight_gradient;
  const bool forward = c.form == GemmForm::forward;
  GroupedGemmArgs args;
  args.form = c.form;
  args.a = test::random_tensor(dtype, {rows, forward ? c.k : c.n}, 1);
  args.b = gradient ? test::random_tensor(dtype, {rows, c.k}, 2)
                    : test::random_tensor(dtype, {kExperts * c.n, c.k}, 2);
  args.c = gradient ? test::random_tensor(out, {kExperts * c.n, c.k}, 3)
                    : test::random_tensor(out, {rows, forward ? c.n : c.k}, 3);
  args.offsets = test::integers(DType::i32, c.offsets);
  args.mode = mode;
  return args;
}

}  // namespace viaduct::grouped_gemm_test
