#include "device/cuda/cuda_stopwatch.h"

#include "device/cuda/cuda_check.h"

namespace viaduct {
namespace {

class EventStopwatch final : public Stopwatch {
 public:
  explicit EventStopwatch(CudaDevice& device) : device_(device) {
    for (cudaEvent_t* event : {&begin_, &end_})
      check_cuda(cudaEventCreateWithFlags(event, cudaEventDefault), "cudaEventCreateWithFlags");
  }
  ~EventStopwatch() override {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  void start() override { record(begin_); }
  double stop() override {
    record(end_);
    check_cuda(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  void record(cudaEvent_t event) {
    check_cuda(cudaEventRecord(event, device_.handle(kComputeStream)), "cudaEventRecord");
  }

  CudaDevice& device_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

std::unique_ptr<Stopwatch> make_event_stopwatch(Device& device) {
  auto* const gpu = dynamic_cast<CudaDevice*>(&device);
  VIADUCT_CHECK(DeviceError, gpu != nullptr, "stopwatch: expected a cuda device");
  return std::make_unique<EventStopwatch>(*gpu);
}

}  // namespace viaduct
