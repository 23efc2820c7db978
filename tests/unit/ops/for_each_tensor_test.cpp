// Finds every tensor in the arguments of an op: in operands, nested structs, lists.

#include "ops/for_each_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/attention.h"
#include "ops/gemm.h"

namespace viaduct {
namespace {

using testing::UnorderedElementsAre;

template <class Args>
std::vector<int64_t> elements(const Args& args) {
  std::vector<int64_t> list;
  for_each_tensor(args, [&](const Tensor& tensor) {
    if (tensor) list.push_back(tensor.elements());
  });
  return list;
}

Tensor tensor(int64_t elements) {
  return host_tensor(DType::f32, {elements});
}

TEST(ForEachTensor, LooksIntoOperandsAndNestedStructs) {
  GemmArgs gemm;
  gemm.a = tensor(1), gemm.b = tensor(2), gemm.c = tensor(3), gemm.bias = tensor(4);
  gemm.epilogue.residual = tensor(5);
  EXPECT_THAT(elements(gemm), UnorderedElementsAre(1, 2, 3, 4, 5));
  AttentionForwardArgs attention;
  attention.problem.q_offsets = tensor(6), attention.problem.key_position = tensor(7);
  attention.lse = tensor(8);
  EXPECT_THAT(elements(attention), UnorderedElementsAre(6, 7, 8));
}

TEST(ForEachTensor, LooksIntoLists) {
  struct Run {
    Tensor master, gradient;
    double rate = 1;
  };
  struct Args {
    std::vector<Run> runs;
    std::vector<Tensor> others;
    std::vector<int64_t> rows;
  };
  EXPECT_THAT(elements(Args{{{tensor(1), tensor(2)}, {tensor(3), {}}}, {tensor(4)}, {5}}),
              UnorderedElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace viaduct
