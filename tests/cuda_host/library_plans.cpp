// cuBLASLt behind ProductLibrary, on the double: plans are kept by kind, memory may change between
// products of a kind, and a refusal of the library is an error with the product and the reason.

#include "ops/cuda/launch/product_library.h"

#include <gmock/gmock.h>

#include <vector>

#include "base/error.h"
#include "cublaslt_double.h"
#include "cuda_host/streams.h"

namespace viaduct::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// d [2, 2] of f32 = a · bᵀ over `contracted` elements of 1, 2, 3 …
class ProductLibraryTest : public testing::Test {
 protected:
  ProductLibraryTest() : workspace_(kProductWorkspace) { cublaslt_double::set_capability(90); }

  static ProductKind kind(int64_t contracted) {
    ProductKind kind;
    kind.a = {DType::f32, 2, contracted, 4};
    kind.b = kind.a;
    kind.d = {DType::f32, 2, 2, 4};
    kind.contracted = contracted;
    return kind;
  }
  ProductMemory memory(std::vector<float>& a, std::vector<float>& b, std::vector<float>& d) {
    ProductMemory memory{a.data(), b.data(), d.data()};
    memory.workspace = workspace_.data();
    return memory;
  }
  std::vector<char> workspace_;
};

TEST_F(ProductLibraryTest, AsksOnceForEachKind) {
  const int64_t before = cublaslt_double::live_objects();
  {
    ProductLibrary library;
    std::vector<float> a{1, 2, 3, 4}, b{5, 6, 7, 8}, other{1, 0, 0, 1}, d(4);
    const int64_t asked = cublaslt_double::heuristic_calls();
    library.multiply(kind(2), memory(a, b, d), nullptr);
    EXPECT_EQ(d, (std::vector<float>{17, 23, 39, 53}));
    library.multiply(kind(2), memory(a, other, d), nullptr);
    EXPECT_EQ(d, a);
    EXPECT_EQ(library.kinds(), 1);
    EXPECT_EQ(cublaslt_double::heuristic_calls(), asked + 1);
    ProductKind adds = kind(2);
    adds.accumulate = true;
    library.multiply(adds, memory(a, other, d), nullptr);
    EXPECT_EQ(d, (std::vector<float>{2, 4, 6, 8}));
    EXPECT_EQ(library.kinds(), 2);
  }
  EXPECT_EQ(cublaslt_double::live_objects(), before);
}

TEST_F(ProductLibraryTest, AProductLeavesMultiprocessorsFree) {
  cuda_host::reset_runtime({});  // a GPU of 4
  cublaslt_double::offer_algorithms({0});
  ProductLibrary library;
  std::vector<float> a{1, 2, 3, 4}, b{5, 6, 7, 8}, d(4);
  ProductKind spares = kind(2);
  spares.spare_multiprocessors = 3;
  library.multiply(kind(2), memory(a, b, d), nullptr);
  for (int product = 0; product < 2; ++product) library.multiply(spares, memory(a, b, d), nullptr);
  EXPECT_EQ(d, (std::vector<float>{17, 23, 39, 53}));
  EXPECT_EQ(library.kinds(), 2) << "it has an algorithm of its own";
  EXPECT_NE(key_of(kind(2)), key_of(spares));
  EXPECT_EQ(cublaslt_double::products_by_multiprocessors(),
            (std::map<int, int64_t>{{0, 1}, {1, 2}}));
  spares.spare_multiprocessors = 4;
  EXPECT_THAT([&] { library.multiply(spares, memory(a, b, d), nullptr); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("leaves 4 multiprocessors"),
                                               HasSubstr("expected num_sm of at most 3"))));
}

TEST_F(ProductLibraryTest, AKindWithABiasTakesTheBiasOfEachCall) {
  ProductLibrary library;
  std::vector<float> a{1, 2, 3, 4}, b{1, 0, 0, 1}, d(4), first{10, 20}, second{30, 40};
  ProductKind biased = kind(2);
  biased.bias = true;
  for (const std::vector<float>& bias : {first, second}) {
    ProductMemory at = memory(a, b, d);
    at.bias = bias.data();
    library.multiply(biased, at, nullptr);
    EXPECT_EQ(d, (std::vector<float>{1 + bias[0], 2 + bias[1], 3 + bias[0], 4 + bias[1]}));
  }
  EXPECT_EQ(library.kinds(), 1);
}

TEST_F(ProductLibraryTest, OperandsInEitherOrderOfMemory) {
  ProductLibrary library;
  // a [2, 3] and b [2, 3], each plain and transposed.
  std::vector<float> a{1, 2, 3, 4, 5, 6}, a_turned{1, 4, 2, 5, 3, 6};
  std::vector<float> b{1, 0, 2, 0, 1, 1}, b_turned{1, 0, 0, 1, 2, 1}, d(4);
  for (const bool a_last : {true, false}) {
    for (const bool b_last : {true, false}) {
      ProductKind of = kind(3);
      of.a.contracted_last = a_last, of.a.stride = a_last ? 3 : 2;
      of.b.contracted_last = b_last, of.b.stride = b_last ? 3 : 2;
      library.multiply(of, memory(a_last ? a : a_turned, b_last ? b : b_turned, d), nullptr);
      EXPECT_EQ(d, (std::vector<float>{7, 5, 16, 11})) << a_last << b_last;
    }
  }
}

TEST_F(ProductLibraryTest, RefusalsNameTheProductAndTheReason) {
  ProductLibrary library;
  std::vector<float> a(4), b(4), d(4);
  ProductKind bytes = kind(2);
  bytes.a.format = bytes.b.format = DType::e5m2;
  bytes.a.scales = bytes.b.scales = LibraryScales::matrix;
  EXPECT_THAT([&] { library.multiply(bytes, memory(a, b, d), nullptr); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("f32 [2, 2] = e5m2 [2, 2] · e5m2 [2, 2]ᵀ"),
                                               HasSubstr("e5m2 times e5m2"))));
  EXPECT_EQ(library.kinds(), 0) << "no plan of it is kept";
  ProductKind i32 = kind(2);
  i32.a.format = DType::i32;
  EXPECT_THAT([&] { library.multiply(i32, memory(a, b, d), nullptr); },
              ThrowsMessage<DeviceError>(HasSubstr("no elements of i32")));
}

TEST_F(ProductLibraryTest, AlignmentIsThatOfTheAddress) {
  alignas(512) char bytes[64] = {};
  EXPECT_EQ(alignment_of(bytes), 256);
  EXPECT_EQ(alignment_of(bytes + 32), 32);
  EXPECT_EQ(alignment_of(bytes + 8), 8);
  EXPECT_EQ(alignment_of(bytes + 2), 2);
  EXPECT_EQ(alignment_of(bytes + 1), 1);
}

}  // namespace
}  // namespace viaduct::cuda
