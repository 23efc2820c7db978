// The double of the CUDA runtime: work ordered by streams and events gives the right result with
// every seed, unordered work gives a wrong one with some seed, and breaches of the runtime's rules
// are errors.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cuda_host/streams.h"

namespace cuda_host {
namespace {

using testing::HasSubstr;

constexpr int kSeeds = 40, kRounds = 12, kValues = 16;

#define OK(call) ASSERT_EQ((call), cudaSuccess)

enum class Edges { all, no_producer, no_reuse };

/// A producer and a consumer of one buffer: the producer writes round numbers into it, the consumer
/// adds them up. The sum must be 1 + 2 + … + kRounds.
class Bucket {
 public:
  explicit Bucket(bool graph) : graph_(graph) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 3 * kValues * sizeof(float)), cudaSuccess);
    bucket_ = static_cast<float*>(memory), sum_ = bucket_ + kValues, one_ = sum_ + kValues;
    for (cudaStream_t* stream : {&producer_, &consumer_})
      EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    for (cudaEvent_t* event : {&filled_, &read_, &joined_})
      EXPECT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
  }
  ~Bucket() {
    for (cudaStream_t stream : {producer_, consumer_}) cudaStreamDestroy(stream);
    for (cudaEvent_t event : {filled_, read_, joined_}) cudaEventDestroy(event);
    cudaFree(bucket_);
  }

  float run(Edges edges) {
    const std::vector<float> start(3 * kValues, 0.0f);
    EXPECT_EQ(cudaMemcpyAsync(bucket_, start.data(), start.size() * sizeof(float),
                              cudaMemcpyHostToDevice, producer_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(producer_), cudaSuccess);
    if (graph_) {
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
      EXPECT_EQ(cudaStreamBeginCapture(producer_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
      rounds(edges);
      EXPECT_EQ(cudaStreamEndCapture(producer_, &graph), cudaSuccess);
      EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
      EXPECT_EQ(cudaGraphLaunch(exec, producer_), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(producer_), cudaSuccess);
      EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    } else {
      rounds(edges);
    }
    std::vector<float> result(kValues);
    EXPECT_EQ(cudaMemcpyAsync(result.data(), sum_, kValues * sizeof(float), cudaMemcpyDeviceToHost,
                              producer_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(producer_), cudaSuccess);
    return result[0];
  }

 private:
  void rounds(Edges edges) {
    // The consumer's first work is ordered after the producer's, whichever edge is left out.
    cudaEventRecord(filled_, producer_);
    cudaStreamWaitEvent(consumer_, filled_, 0);
    for (int round = 1; round <= kRounds; ++round) {
      const auto value = static_cast<float>(round);
      enqueue(producer_, "fill", [=, bucket = bucket_] {
        for (int i = 0; i < kValues; ++i) bucket[i] = value;
      });
      cudaEventRecord(filled_, producer_);
      if (edges != Edges::no_producer) cudaStreamWaitEvent(consumer_, filled_, 0);
      enqueue(consumer_, "add", [bucket = bucket_, sum = sum_] {
        for (int i = 0; i < kValues; ++i) sum[i] += bucket[i];
      });
      cudaEventRecord(read_, consumer_);
      if (edges != Edges::no_reuse) cudaStreamWaitEvent(producer_, read_, 0);
    }
    cudaEventRecord(joined_, consumer_);
    cudaStreamWaitEvent(producer_, joined_, 0);
  }

  bool graph_;
  float *bucket_ = nullptr, *sum_ = nullptr, *one_ = nullptr;
  cudaStream_t producer_ = nullptr, consumer_ = nullptr;
  cudaEvent_t filled_ = nullptr, read_ = nullptr, joined_ = nullptr;
};

int wrong_seeds(Edges edges, bool graph) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    reset_runtime({.seed = seed});
    Bucket bucket(graph);
    wrong += bucket.run(edges) != kRounds * (kRounds + 1) / 2;
  }
  return wrong;
}

TEST(CudaStreams, EventsOrderWorkOfTwoStreamsWithEverySeed) {
  EXPECT_EQ(wrong_seeds(Edges::all, false), 0);
  EXPECT_EQ(wrong_seeds(Edges::all, true), 0);
}

TEST(CudaStreams, AMissingEdgeIsWrongWithSomeSeed) {
  for (const bool graph : {false, true}) {
    EXPECT_GT(wrong_seeds(Edges::no_producer, graph), 2);
    EXPECT_GT(wrong_seeds(Edges::no_reuse, graph), 2);
  }
}

TEST(CudaStreams, AWaitForAnEventThatWasNeverRecordedWaitsForNothing) {
  reset_runtime({.seed = 3});
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaStreamWaitEvent(stream, event, 0));
  OK(cudaStreamSynchronize(stream));
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(stream));
}

TEST(CudaStreams, NewMemoryIsNotANumberAndCopiesBeyondItAreErrors) {
  reset_runtime({.seed = 1});
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* memory = nullptr;
  OK(cudaMalloc(&memory, 100));
  std::vector<float> host(30);
  OK(cudaMemcpyAsync(host.data(), memory, 100, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_NE(host[0], host[0]);
  EXPECT_EQ(cudaMemcpyAsync(host.data(), memory, 104, cudaMemcpyDeviceToHost, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(static_cast<char*>(memory) + 8, 0, 100, stream), cudaErrorInvalidValue);
  OK(cudaFree(memory));
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  OK(cudaStreamDestroy(stream));
}

TEST(CudaStreams, AGuardedAccessOfTheHostIsAFault) {
  const auto touch = [] {
    reset_runtime({.seed = 1, .guard = true});
    cudaStream_t stream = nullptr;
    void* memory = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(&memory, 4096);
    cudaMemsetAsync(memory, 0, 4096, stream);
    cudaStreamSynchronize(stream);  // a stream's work may access it
    *static_cast<volatile char*>(memory) = 1;
  };
  EXPECT_DEATH(touch(), "");
}

TEST(CudaStreams, AFailedKernelMakesLaterCallsFailWithItsMessage) {
  reset_runtime({.seed = 0});
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  EXPECT_ANY_THROW(
      enqueue(stream, "broken", [] { throw std::runtime_error("a rule was broken"); }));
  const cudaError_t error = cudaStreamSynchronize(stream);
  EXPECT_EQ(error, cudaErrorLaunchFailure);
  EXPECT_THAT(cudaGetErrorString(error), HasSubstr("broken: a rule was broken"));
  cudaStreamDestroy(stream);
}

TEST(CudaStreams, HostFunctionsMayNotCallTheRuntime) {
  reset_runtime({.seed = 0});
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaError_t error = cudaSuccess;
  OK(cudaLaunchHostFunc(
      stream,
      [](void* found) {
        void* memory = nullptr;
        *static_cast<cudaError_t*>(found) = cudaMalloc(&memory, 8);
      },
      &error));
  EXPECT_EQ(error, cudaErrorNotPermitted);
  OK(cudaStreamDestroy(stream));
}

TEST(CudaStreams, ACaptureThatIsNotJoinedIsAnError) {
  reset_runtime({.seed = 5});
  cudaStream_t one = nullptr, other = nullptr;
  cudaEvent_t event = nullptr;
  OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(event, one));
  OK(cudaStreamWaitEvent(other, event, 0));
  enqueue(other, "work", [] {});
  EXPECT_EQ(cudaStreamSynchronize(one), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureUnjoined);
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

TEST(CudaStreams, MemoryOfADeviceIsLimitedAndItsOwn) {
  reset_runtime({.devices = 2, .memory_bytes = 1000});
  void *first = nullptr, *second = nullptr, *third = nullptr;
  OK(cudaMalloc(&first, 800));
  EXPECT_EQ(cudaMalloc(&second, 300), cudaErrorMemoryAllocation);
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&third, 900));
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  OK(cudaFree(first));
  OK(cudaFree(third));
  OK(cudaSetDevice(0));
}

}  // namespace
}  // namespace cuda_host
