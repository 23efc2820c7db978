// The cuda device. With a plan, memory comes from one arena of the GPU, each allocation at its
// planned place; everything else from a range of addresses that grows (growing_memory.h), or from
// blocks that are kept (cuda_memory.h). Copies between host and
// GPU go through pinned memory, so the host's tensors are free when a copy returns; only copies to
// the host wait for the GPU.

#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_graph.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_profiler.h"
#include "device/cuda/cuda_streams.h"
#include "device/cuda/growing_memory.h"
#include "device/cuda/launch_graphs.h"
#include "device/cuda/pinned_memory.h"
#include "device/cuda/stream_priority.h"
#include "device/launch_groups.h"
#include "device/planned_arena.h"

namespace viaduct {
namespace {

/// Bytes of one copy through pinned memory.
constexpr int64_t kMostStaged = 32 << 20;
/// Bytes that become NaN at either end of an allocation, for tests.
constexpr int64_t kMostPoisoned = 1 << 20;

void check_equal(const Tensor& from, const Tensor& to) {
  VIADUCT_CHECK(ShapeError,
                from.dtype() == to.dtype() && from.elements() == to.elements() &&
                    from.is_contiguous() && to.is_contiguous(),
                "copy: expected contiguous tensors of one dtype and size, got {} to {}",
                describe(from), describe(to));
}

/// "weights 12, activations 3": bytes by tag, without those that have none.
std::string by_tag(const MemoryStatistics& memory) {
  std::string list;
  for (size_t tag = 0; tag < memory.bytes_by_tag.size(); ++tag) {
    if (memory.bytes_by_tag[tag] == 0) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ",
                        memory_tag_name(static_cast<MemoryTag>(tag)), memory.bytes_by_tag[tag]);
  }
  return list.empty() ? "nothing" : list;
}

/// What `cudaMalloc` gives for a plan; null if the GPU has no room.
void* take_block(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_cuda(error, "cudaMalloc");
  return data;
}

/// Memory outside of plans.
std::unique_ptr<UnplannedMemory> make_memory(const GpuProperties& gpu, bool peer_access,
                                             GrowingMemory::Wait wait) {
  std::string missing;
  if (auto memory =
          GrowingMemory::make(gpu.ordinal, gpu.memory_bytes, peer_access, std::move(wait), missing))
    return memory;
  log_info("cuda: memory outside of the plan is in separate blocks, which can fragment: {}",
           missing);
  return std::make_unique<CudaMemory>();
}

class GpuDevice final : public CudaDevice, public LaunchGroups {
 public:
  GpuDevice(const CudaDeviceSettings& settings, StreamChoice has_priority)
      : settings_(settings),
        properties_(gpu_of_thread()),
        // Memory is freed in the order of compute, whichever streams have used it.
        memory_(make_memory(properties_, settings.peer_access, [this] { finish_compute(); })),
        has_priority_(std::move(has_priority)) {}
  ~GpuDevice() override;

  const GpuProperties& properties() const override { return properties_; }
  ThreadPool& pool() override { return pool_; }
  CUstream_st* handle(int stream) override;
  void finish() override {
    give_kept();
    check_cuda(streams_.finish(), "cudaStreamSynchronize");
  }

  void begin_step(bool captures) override { graphs_.begin_step(captures); }
  void begin_group(bool first_part) override {
    group_ = first_part ? Group::first_part : Group::all_parts;
  }
  void end_group() override;
  void drop_group() noexcept override {
    kept_ = {};
    group_ = Group::none;
    if (record() != nullptr) record()->set_in_graph(false);
  }
  KeptLaunches* kept_launches() override {
    return group_ == Group::none || giving_ ? nullptr : &kept_;
  }

  int64_t capture_number() const override { return capturing() ? captures_ : 0; }
  void on_launch(std::function<void(CUstream_st*)> launched) override {
    VIADUCT_CHECK(DeviceError, capturing(), "cuda: nothing is captured into a graph");
    listeners_.push_back(std::move(launched));
  }

  std::pair<void*, int64_t> planned_memory() const override {
    return {arena_memory_, arena_memory_ == nullptr ? 0 : memory().planned_bytes};
  }

  uint64_t plan_fingerprint() const override { return plan_fingerprint_; }

  void watch(bool on) override { watch_process(on); }
  ScopeMarks* scope_marks() override { return &marks_; }

  void use_plan(const MemoryPlan& plan) override;
  void begin_sequence(MemorySequence sequence) override {
    if (arena_) arena_->begin(sequence);
  }
  void end_sequence() override {
    if (arena_) arena_->end();
  }

  void wait_host(const Event& event) override {
    refuse_in_graph("a wait of the host");
    give_kept();
    check_cuda(cudaEventSynchronize(behind(event)), "cudaEventSynchronize");
  }
  void copy_from_host(const Tensor& host, const Tensor& device) override;
  void copy_to_host(const Tensor& device, const Tensor& host) override;
  void copy(const Tensor& from, const Tensor& to, int stream) override;

 protected:
  void enqueue_wait(int stream, const Event& event) override {
    if (capturing()) joined_.insert(stream);
    cudaStream_t waiting = handle(stream);
    check_cuda(cudaStreamWaitEvent(waiting, behind(event), 0), "cudaStreamWaitEvent");
  }
  void begin_capture() override;
  std::unique_ptr<DeviceGraph> end_capture(bool complete) override;
  void enqueue_graph(const DeviceGraph& graph) override;
  void* take(int64_t bytes, MemoryTag tag) override;
  void give(void* data, int64_t bytes) override;

 private:
  enum class Group { none, first_part, all_parts };

  void finish_compute() {
    check_cuda(cudaStreamSynchronize(streams_.handle(kComputeStream)), "cudaStreamSynchronize");
  }
  PlanMemorySource plan_memory_source() const {
    if (settings_.plan_memory.take != nullptr) return settings_.plan_memory;
    return {take_block, [](void* data) { cudaFree(data); }};
  }
  bool capturing() const { return graph_memory_ != nullptr; }
  /// Gives the launches that are kept to the GPU; the group's next part begins.
  void give_kept();
  void refuse_in_graph(std::string_view what) const;
  cudaEvent_t behind(const Event& event) {
    give_kept();
    return streams_.behind(event.stream, event.position, record_event(event.stream).position);
  }
  void* place(int64_t bytes, MemoryTag tag);
  [[noreturn]] void no_memory(int64_t bytes, const std::string& use) const;
  void poison(void* data, int64_t bytes);

  const CudaDeviceSettings settings_;
  const GpuProperties properties_;
  ThreadPool pool_{1};
  const std::unique_ptr<UnplannedMemory> memory_;
  std::shared_ptr<CudaMemory> graph_memory_;          // of the capture that has begun
  std::vector<std::weak_ptr<CudaMemory>> of_graphs_;  // of those that are complete
  std::set<int> joined_;                              // streams that take part in it
  std::vector<CudaGraph::Listener> listeners_;        // of its launches
  int64_t captures_ = 0;                              // so far
  void* arena_memory_ = nullptr;
  uint64_t plan_fingerprint_ = 0;
  std::unique_ptr<PlannedArena> arena_;  // null without a plan
  PinnedMemory pinned_;
  const StreamChoice has_priority_;
  CudaStreams streams_{[this](int stream) {
    return stream != kComputeStream && (!has_priority_ || has_priority_(stream_name(stream)));
  }};
  Group group_ = Group::none;  // of launches, that is open
  KeptLaunches kept_;
  bool giving_ = false;  // they are given to the GPU now
  LaunchGraphs graphs_;
  ProfilerMarks marks_;
  bool closing_ = false;
};

GpuDevice::~GpuDevice() {
  closing_ = true;
  static_cast<void>(streams_.finish());
  graphs_.clear();
  release_states();
  release_held();
  if (arena_memory_ != nullptr) plan_memory_source().give(arena_memory_);
}

void GpuDevice::begin_capture() {
  streams_.forget_marks();
  joined_.clear();
  listeners_.clear();
  ++captures_;
  begin_graph(streams_.handle(kComputeStream));
  graph_memory_ = std::make_shared<CudaMemory>();
}

std::unique_ptr<DeviceGraph> GpuDevice::end_capture(bool complete) {
  if (!capturing()) return nullptr;
  const std::shared_ptr<CudaMemory> memory = std::exchange(graph_memory_, nullptr);
  // Tensors that an error leaves behind go back there.
  of_graphs_.emplace_back(memory);
  streams_.forget_marks();
  cudaStream_t compute = streams_.handle(kComputeStream);
  std::vector<CudaGraph::Listener> listeners = std::exchange(listeners_, {});
  if (complete)
    return std::make_unique<CudaGraph>(end_graph(compute), memory, std::move(listeners));
  drop_graph(compute);
  return nullptr;
}

void GpuDevice::enqueue_graph(const DeviceGraph& graph) {
  dynamic_cast<const CudaGraph&>(graph).launch(handle(kComputeStream));
}

void GpuDevice::give_kept() {
  if (giving_ || kept_.empty()) return;
  const KeptLaunches part = std::exchange(kept_, {});
  if (group_ == Group::first_part) group_ = Group::none;
  const double begin = steady_seconds();
  giving_ = true;
  bool graph = false;
  try {
    graph = graphs_.give(part, streams_.handle(kComputeStream));
  } catch (...) {
    giving_ = false;
    throw;
  }
  giving_ = false;
  if (record() == nullptr) return;
  OpEntryRecord entry =
      part_launch(record_event(kComputeStream).position, graph, graph ? 1 : part.launches());
  entry.begin_seconds = begin, entry.end_seconds = steady_seconds();
  record()->set_in_graph(false);
  record()->op(std::move(entry));
}

void GpuDevice::end_group() {
  give_kept();
  group_ = Group::none;
  if (record() != nullptr) record()->set_in_graph(false);
}

void GpuDevice::refuse_in_graph(std::string_view what) const {
  VIADUCT_CHECK(DeviceError, !capturing(),
                "cuda: {} is part of a step that is captured into a graph, and a graph cannot call "
                "the host; expected model.cuda_graph_impl = none",
                what);
}

CUstream_st* GpuDevice::handle(int stream) {
  VIADUCT_CHECK(DeviceError, !capturing() || stream == kComputeStream || joined_.contains(stream),
                "cuda: stream {} is first used in a step that is captured into a graph; more steps "
                "of model.cuda_graph_warmup_steps use it before",
                stream_name(stream));
  give_kept();
  // The work that is about to be enqueued already counts. Side streams wait for compute when they
  // get work, at its end; so compute needs no marks.
  if (stream != kComputeStream) streams_.mark(stream, record_event(stream).position - 1);
  return streams_.handle(stream);
}

void GpuDevice::use_plan(const MemoryPlan& plan) {
  VIADUCT_CHECK(DeviceError, arena_ == nullptr && memory().system_allocations == 0,
                "cuda device: a memory plan must be given once, before the first allocation");
  const int64_t bytes = std::max<int64_t>(1, plan.arena_bytes);
  arena_memory_ = plan_memory_source().take(bytes);
  if (arena_memory_ == nullptr) no_memory(bytes, "the planned memory of a step");
  plan_fingerprint_ = fingerprint_of(plan);
  arena_ = std::make_unique<PlannedArena>(plan, arena_memory_, bytes);
  statistics().planned_bytes = bytes;
  statistics().reserved_bytes += bytes;
  ++statistics().system_allocations;
}

void GpuDevice::no_memory(int64_t bytes, const std::string& use) const {
  size_t free = 0, total = 0;
  static_cast<void>(cudaMemGetInfo(&free, &total));
  fail<DeviceError>(
      "cuda: no memory for {} bytes ({}): GPU {} ({}) has {} of {} bytes free; this rank has "
      "reserved {} and uses {} ({}). Smaller micro-batches, recomputation or more ranks need less",
      bytes, use, properties_.ordinal, properties_.name, free, total, memory().reserved_bytes,
      memory().bytes_in_use, by_tag(memory()));
}

void* GpuDevice::place(int64_t bytes, MemoryTag tag) {
  if (arena_) {
    if (void* planned = arena_->take(bytes, tag)) return planned;
    if (arena_->in_sequence()) {
      ++statistics().unplanned_allocations;
      statistics().unplanned_bytes += bytes;
    }
  }
  // Memory that is given back to the system may be that of launches that are kept.
  if (!capturing() && !memory_->has_free(bytes)) give_kept();
  UnplannedMemory& memory = capturing() ? *graph_memory_ : *memory_;
  const UnplannedMemory::Taken taken = memory.take(bytes);
  statistics().reserved_bytes += taken.reserved;
  statistics().system_allocations += taken.requests;
  if (taken.data == nullptr) no_memory(bytes, std::string(memory_tag_name(tag)));
  if (arena_ && arena_->in_sequence()) note_peak_beside_plan();
  return taken.data;
}

void* GpuDevice::take(int64_t bytes, MemoryTag tag) {
  void* data = place(bytes, tag);
  poison(data, bytes);
  return data;
}

void GpuDevice::give(void* data, int64_t bytes) {
  if (closing_) return;
  poison(data, bytes);
  if (arena_ && arena_->give(data)) return;
  if (capturing() && graph_memory_->owns(data)) return graph_memory_->give(data, bytes);
  for (const std::weak_ptr<CudaMemory>& graph : of_graphs_) {
    const auto memory = graph.lock();
    if (memory != nullptr && memory->owns(data)) return memory->give(data, bytes);
  }
  // A tensor that outlives a dropped capture has memory that is gone with it.
  if (memory_->owns(data)) memory_->give(data, bytes);
}

void GpuDevice::poison(void* data, int64_t bytes) {
  if (!settings_.poison) return;
  launched(kComputeStream);
  const auto set = [this, data, bytes] {
    // Called by destructors: an error is reported by the next call.
    const auto part = static_cast<size_t>(std::min(bytes, kMostPoisoned));
    cudaStream_t compute = streams_.handle(kComputeStream);
    cudaMemsetAsync(data, 0xff, part, compute);
    if (bytes > kMostPoisoned)
      cudaMemsetAsync(static_cast<char*>(data) + bytes - kMostPoisoned, 0xff, part, compute);
  };
  KeptLaunches* const kept = kept_launches();
  if (kept == nullptr) return set();
  kept->note_text("poison");
  kept->note(data);
  kept->note(bytes);
  kept->add(0, set);
}

void GpuDevice::copy_from_host(const Tensor& host, const Tensor& device) {
  check_equal(host, device);
  refuse_in_graph("a copy to the GPU");
  launched(kComputeStream);
  cudaStream_t compute = handle(kComputeStream);
  for (int64_t at = 0; at < host.bytes(); at += kMostStaged) {
    const int64_t bytes = std::min(kMostStaged, host.bytes() - at);
    const PinnedMemory::Block block = pinned_.take(bytes);
    std::memcpy(block.data, static_cast<const char*>(host.raw()) + at, static_cast<size_t>(bytes));
    check_cuda(cudaMemcpyAsync(static_cast<char*>(device.raw()) + at, block.data,
                               static_cast<size_t>(bytes), cudaMemcpyHostToDevice, compute),
               "cudaMemcpyAsync to the GPU");
    pinned_.give(block, compute);
  }
}

void GpuDevice::copy_to_host(const Tensor& device, const Tensor& host) {
  check_equal(device, host);
  refuse_in_graph("a copy to the host");
  launched(kComputeStream);
  cudaStream_t compute = handle(kComputeStream);
  for (int64_t at = 0; at < host.bytes(); at += kMostStaged) {
    const int64_t bytes = std::min(kMostStaged, host.bytes() - at);
    const PinnedMemory::Block block = pinned_.take(bytes);
    check_cuda(cudaMemcpyAsync(block.data, static_cast<const char*>(device.raw()) + at,
                               static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, compute),
               "cudaMemcpyAsync to the host");
    pinned_.give(block, compute);
    check_cuda(cudaEventSynchronize(block.last), "cudaEventSynchronize");
    std::memcpy(static_cast<char*>(host.raw()) + at, block.data, static_cast<size_t>(bytes));
  }
}

void GpuDevice::copy(const Tensor& from, const Tensor& to, int stream) {
  VIADUCT_CHECK(
      ShapeError, from.bytes() == to.bytes() && from.is_contiguous() && to.is_contiguous(),
      "copy: expected contiguous tensors of one size, got {} to {}", describe(from), describe(to));
  cudaStream_t on = handle(stream);
  if (from.raw() == to.raw() || from.bytes() == 0) return;
  check_cuda(cudaMemcpyAsync(to.raw(), from.raw(), static_cast<size_t>(from.bytes()),
                             cudaMemcpyDefault, on),
             "cudaMemcpyAsync");
}

}  // namespace

CudaDevice::~CudaDevice() = default;

std::unique_ptr<CudaDevice> make_cuda_device(const CudaDeviceSettings& settings) {
  return std::make_unique<GpuDevice>(settings, StreamChoice());
}

std::unique_ptr<CudaDevice> make_cuda_device(const CudaDeviceSettings& settings,
                                             StreamChoice has_priority) {
  return std::make_unique<GpuDevice>(settings, std::move(has_priority));
}

}  // namespace viaduct
