// The choice of cuBLASLt's algorithms by time, on the doubles of the library and of the runtime:
// the fastest is taken and kept, the products of the run are not disturbed, and nothing is timed
// where it cannot be.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "cublaslt_double.h"
#include "cuda_host/streams.h"
#include "ops/cuda/launch/product_library.h"
#include "support/temporary_folder.h"

namespace viaduct::cuda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kContracted = 64;

/// d [1, 1] = the sum of a · b, whose bits differ between the double's algorithms.
class ProductAlgorithms : public testing::Test {
 protected:
  ProductAlgorithms() : a_(kContracted), b_(kContracted), workspace_(kProductWorkspace) {
    cublaslt_double::set_capability(90);
    cublaslt_double::offer_algorithms({30, 10, 20});
    start({});
    // Ones that come one by one are lost beside the first element.
    std::fill(a_.begin(), a_.end(), 1.0f);
    std::fill(b_.begin(), b_.end(), 1.0f);
    b_[0] = 1e8f;
  }
  ~ProductAlgorithms() override {
    cudaStreamDestroy(stream_);
    cublaslt_double::offer_algorithms({0});
    cublaslt_double::set_version(cublaslt_double::kVersion);
  }
  void start(const cuda_host::RuntimeSettings& settings) {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    cuda_host::reset_runtime(settings);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }

  static ProductKind kind(bool accumulate = false) {
    ProductKind kind;
    kind.a = {DType::f32, 1, kContracted, 4};
    kind.b = kind.a;
    kind.d = {DType::f32, 1, 1, 4};
    kind.contracted = kContracted;
    kind.accumulate = accumulate;
    return kind;
  }
  /// The result of algorithm `number` of the double.
  float by_algorithm(size_t number) const {
    float sum = 0;
    for (size_t n = 0; n <= number; ++n) {
      float part = 0;
      for (size_t l = a_.size() * n / (number + 1); l < a_.size() * (n + 1) / (number + 1); ++l)
        part += a_[l] * b_[l];
      sum += part;
    }
    return sum;
  }
  void multiply(ProductLibrary& library, float& d, bool accumulate = false) {
    ProductMemory memory{a_.data(), b_.data(), &d};
    memory.workspace = workspace_.data();
    library.multiply(kind(accumulate), memory, stream_);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  float product(ProductLibrary& library) {
    float d = 0;
    multiply(library, d);
    return d;
  }
  void choose(ProductLibrary& library) const { library.choose_by_time(path_, kSource); }
  StoredAlgorithm stored(bool accumulate = false) const {
    AlgorithmSource source = kSource;
    source.library = cublaslt_double::kVersion;
    return AlgorithmFile(path_, source).find(key_of(kind(accumulate))).value();
  }

  inline static const AlgorithmSource kSource{"GPU", 90, 13000, 0};
  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "algorithms.json";
  cudaStream_t stream_ = nullptr;
  std::vector<float> a_, b_;
  std::vector<char> workspace_;
};

TEST_F(ProductAlgorithms, WithoutAFileTheFirstIsTakenAndNothingIsTimed) {
  ASSERT_NE(by_algorithm(0), by_algorithm(1));
  ASSERT_NE(by_algorithm(1), by_algorithm(2));
  ProductLibrary library;
  EXPECT_EQ(product(library), by_algorithm(0));
  EXPECT_THAT(cublaslt_double::products(), ElementsAre(1, 0, 0));
}

TEST_F(ProductAlgorithms, TheFastestIsTimedOnceAndStored) {
  ProductLibrary library;
  choose(library);
  EXPECT_EQ(product(library), by_algorithm(1));
  const std::vector<int64_t> timed = cublaslt_double::products();
  EXPECT_EQ(timed[0], timed[2]);
  EXPECT_EQ(timed[1], timed[0] + 1) << "the product itself";
  EXPECT_EQ(product(library), by_algorithm(1));
  EXPECT_THAT(cublaslt_double::products(), ElementsAre(timed[0], timed[1] + 1, timed[2]));
  const StoredAlgorithm found = stored();
  EXPECT_EQ(found.place, 1);
  EXPECT_NEAR(found.seconds, 10, 1);
  EXPECT_NEAR(found.seconds_of_first, 30, 1);
}

TEST_F(ProductAlgorithms, TheFileDecidesAtTheNextStart) {
  {
    ProductLibrary library;
    choose(library);
    product(library);
  }
  cublaslt_double::offer_algorithms({1, 2, 3});
  ProductLibrary library;
  choose(library);
  EXPECT_EQ(product(library), by_algorithm(1));
  EXPECT_THAT(cublaslt_double::products(), ElementsAre(0, 1, 0)) << "nothing is timed again";
}

TEST_F(ProductAlgorithms, TwoRanksWithOneFileHaveTheSame) {
  ProductLibrary first, second;
  choose(first), choose(second);
  product(first);
  cublaslt_double::offer_algorithms({1, 2, 3});
  EXPECT_EQ(product(second), by_algorithm(1));
}

TEST_F(ProductAlgorithms, TimingAddsNothingToTheResult) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    std::filesystem::remove(path_);
    start({.seed = seed});
    ProductLibrary library;
    choose(library);
    const std::vector<float> a = a_, b = b_;
    float d = 100;
    multiply(library, d, true);
    EXPECT_EQ(d, by_algorithm(1) + 100) << seed;
    multiply(library, d, true);
    EXPECT_EQ(d, by_algorithm(1) + (by_algorithm(1) + 100)) << seed;
    EXPECT_EQ(a_, a);
    EXPECT_EQ(b_, b);
  }
}

TEST_F(ProductAlgorithms, TimingReturnsItsMemory) {
  ProductLibrary library;
  choose(library);
  product(library);
  EXPECT_EQ(cuda_host::runtime_counts().allocations, 1) << "a second result";
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, total);
}

TEST_F(ProductAlgorithms, WithoutRoomForASecondResultTheFirstIsStored) {
  start({.memory_bytes = 3});
  {
    ProductLibrary library;
    choose(library);
    EXPECT_EQ(product(library), by_algorithm(0));
    EXPECT_THAT(cublaslt_double::products(), ElementsAre(1, 0, 0));
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    EXPECT_EQ(stored().place, 0);
    EXPECT_EQ(stored().seconds, 0);
  }
  start({});
  ProductLibrary library;
  choose(library);
  EXPECT_EQ(product(library), by_algorithm(0)) << "the bits of the run before";
}

TEST_F(ProductAlgorithms, NothingIsTimedInACapture) {
  ProductLibrary library;
  choose(library);
  float d = 0;
  ProductMemory memory{a_.data(), b_.data(), &d};
  memory.workspace = workspace_.data();
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  library.multiply(kind(), memory, stream_);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_THAT(cublaslt_double::products(), ElementsAre(1, 0, 0));
  EXPECT_EQ(product(library), by_algorithm(0)) << "the bits of the graph";
  EXPECT_EQ(stored().place, 0);
  // A kind that was timed before has its algorithm in a capture too.
  multiply(library, d, true);
  ASSERT_EQ(stored(true).place, 1);
  const int64_t before = cublaslt_double::products()[1];
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  library.multiply(kind(true), memory, stream_);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(cublaslt_double::products()[1], before + 1);
}

TEST_F(ProductAlgorithms, AnotherVersionOfTheLibraryIsRefused) {
  {
    ProductLibrary library;
    choose(library);
    product(library);
  }
  cublaslt_double::set_version(130200);
  ProductLibrary library;
  EXPECT_THAT(
      [&] { choose(library); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("cuBLASLt 13.1.0"), HasSubstr("this rank has GPU"),
                                       HasSubstr("cuBLASLt 13.2.0"))));
}

TEST_F(ProductAlgorithms, AnAlgorithmThatTheLibraryRefusesIsAnError) {
  {
    ProductLibrary library;
    choose(library);
    product(library);
  }
  AlgorithmSource source = kSource;
  source.library = cublaslt_double::kVersion;
  // That of a product without +=, for another kind.
  ProductKind transposed = kind();
  transposed.a.contracted_last = false, transposed.a.stride = 1;
  AlgorithmFile(path_, source).publish(key_of(transposed), stored());
  ProductLibrary library;
  choose(library);
  float d = 0;
  ProductMemory memory{a_.data(), b_.data(), &d};
  memory.workspace = workspace_.data();
  EXPECT_THAT([&] { library.multiply(transposed, memory, stream_); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr(path_.string()),
                                               HasSubstr("refuses the algorithm"),
                                               HasSubstr("that of another problem"))));
  EXPECT_EQ(library.kinds(), 0);
}

TEST_F(ProductAlgorithms, KeysTellKindsApart) {
  std::vector<ProductKind> kinds(13, kind());
  kinds[1].a.format = DType::bf16, kinds[2].b.rows = 2, kinds[3].d.stride = 4;
  kinds[4].a.alignment = 16, kinds[5].b.contracted_last = false;
  kinds[6].a.scales = LibraryScales::matrix, kinds[7].contracted = 2, kinds[8].accumulate = true;
  kinds[9].bias = true, kinds[10].device_factor = true,
  kinds[11].b.scales = LibraryScales::lines_16;
  kinds[12].d.rows = 3;
  std::map<std::string, size_t> keys;
  for (size_t i = 0; i < kinds.size(); ++i)
    EXPECT_TRUE(keys.emplace(key_of(kinds[i]), i).second) << key_of(kinds[i]);
}

}  // namespace
}  // namespace viaduct::cuda
