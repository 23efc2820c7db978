#pragma once
// `Device`: memory with tags, streams, events. A rank has one device. Only the rank's host thread
// allocates and frees.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_kind.h"
#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "device/device_graph.h"
#include "device/memory_plan.h"
#include "device/stream_order.h"
#include "tensor/tensor.h"
#include "timeline/record.h"

namespace viaduct {

struct MemoryStatistics {
  int64_t bytes_in_use = 0;
  int64_t peak_bytes = 0;                  // largest bytes_in_use since the last reset
  int64_t reserved_bytes = 0;              // memory that the device holds from the system
  int64_t system_allocations = 0;          // number of its requests to the system
  int64_t planned_bytes = 0;               // part of them in the arena of a plan
  int64_t unplanned_allocations = 0;       // in planned sequences, but not at the planned place
  int64_t unplanned_bytes = 0;             // their sum
  int64_t peak_beside_plan_bytes = 0;      // most memory held beside the arena for them
  std::vector<int64_t> bytes_by_tag;       // by MemoryTag, now
  std::vector<int64_t> peak_bytes_by_tag;  // by MemoryTag, at the moment of the peak
};

class Device {
 public:
  virtual ~Device();

  virtual DeviceKind kind() const = 0;
  /// False on `sim`: ops are chosen and recorded, never launched, and tensors have no storage
  /// behind them.
  bool executes() const { return kind() != DeviceKind::sim; }
  /// Worker threads of this rank (one on devices that compute elsewhere).
  virtual ThreadPool& pool() = 0;

  /// An uninitialised contiguous tensor.
  Tensor allocate(DType dtype, const Shape& shape, MemoryTag tag);
  const MemoryStatistics& memory() const { return memory_; }

  /// Reserves the memory of `plan` and gives the allocations of its sequences their places in it;
  /// once, before the first allocation. Devices that store nothing ignore it.
  virtual void use_plan(const MemoryPlan& plan) { static_cast<void>(plan); }
  /// Begins a sequence of the plan (it lasts until the next one begins, or `end_sequence`). Without
  /// a plan, and for allocations that the plan does not have, memory comes from the growable
  /// region.
  virtual void begin_sequence(MemorySequence sequence) { static_cast<void>(sequence); }
  virtual void end_sequence() {}
  /// Starts a new measurement of the peak at the bytes in use now.
  void reset_peak();

  /// Whether the device has streams besides compute that run in parallel with it. Without them
  /// (cpu: compute is the host thread) every stream is compute, whatever its name: side work runs
  /// in program order.
  virtual bool has_side_streams() const { return false; }
  /// The stream of a name; "compute" is kComputeStream.
  int stream(std::string_view name);
  const std::string& stream_name(int stream) const { return order_.name(stream); }
  /// Counts a piece of work that is about to be enqueued on a stream; call it right before. Returns
  /// the work's position in the stream.
  int64_t launched(int stream);
  /// The point after all work enqueued on `stream` so far.
  Event record_event(int stream);
  /// Work enqueued on `stream` from now on begins after `event`. The host does not wait.
  void wait(int stream, const Event& event);
  /// The host waits until `event` has passed.
  virtual void wait_host(const Event& event) { static_cast<void>(event); }
  /// Keeps a tensor that the last work of a side stream uses until compute has waited for that
  /// work: memory is freed in the order of compute.
  void hold(int stream, const Tensor& tensor);

  /// Runs `program` and captures the work that it gives to streams instead of doing it; `launch`
  /// does it. The program may neither copy to or from the host nor wait for the device, and holds
  /// the same memory at its end as at its beginning. DeviceError if it breaks one of these rules,
  /// and on devices that cannot capture.
  std::unique_ptr<DeviceGraph> capture(FunctionRef<void()> program);
  /// Does the work of a graph of this device, in compute's order. Unplanned allocations are memory
  /// of the graph, and planned places are those of the program: the launch is valid as long as no
  /// live tensor is in them.
  void launch(const DeviceGraph& graph);

  /// Attaches a record that all calls append to (nullptr: none). Not owned.
  void set_record(StepRecord* record) {
    record_ = record;
    if (record != nullptr) record->set_timed(executes());
  }
  StepRecord* record() const { return record_; }

  /// Tells an attached profiler to begin or end recording. Does nothing on devices without
  /// profilers.
  virtual void watch(bool on) { static_cast<void>(on); }
  /// Gives the profiler's marks for the scopes of a record (`StepRecord::set_marks`); null: there
  /// is none.
  virtual ScopeMarks* scope_marks() { return nullptr; }

  /// Copies elements of equal dtype and shape between a contiguous host tensor and a contiguous
  /// tensor of this device.
  virtual void copy_from_host(const Tensor& host, const Tensor& device) = 0;
  virtual void copy_to_host(const Tensor& device, const Tensor& host) = 0;
  /// Copies the bytes of contiguous tensors of equal size, on a stream for which `launched` was
  /// called.
  virtual void copy(const Tensor& from, const Tensor& to, int stream);

 protected:
  /// Makes `stream` wait, on a device that has side streams.
  virtual void enqueue_wait(int stream, const Event& event);
  /// Work of all streams is captured from here on. Streams join by waiting for an event of compute.
  virtual void begin_capture();
  /// The captured work. `complete` false: it is dropped, and the result is null.
  virtual std::unique_ptr<DeviceGraph> end_capture(bool complete);
  /// Gives the graph's work to compute.
  virtual void enqueue_graph(const DeviceGraph& graph);
  /// Releases held tensors; a device with side streams calls it in its destructor.
  void release_held() { order_.release_held(); }
  /// Memory of at least `bytes` (> 0), aligned to 64 bytes; null if the device stores nothing.
  /// DeviceError if there is no memory left.
  virtual void* take(int64_t bytes, MemoryTag tag) = 0;
  virtual void give(void* data, int64_t bytes) = 0;
  /// After an allocation of a planned sequence that is beside the plan.
  void note_peak_beside_plan() {
    memory_.peak_beside_plan_bytes =
        std::max(memory_.peak_beside_plan_bytes, memory_.reserved_bytes - memory_.planned_bytes);
  }
  MemoryStatistics& statistics() { return memory_; }

 private:
  void account(MemoryTag tag, int64_t bytes);
  /// The streams besides compute that were given work.
  std::vector<int> used_streams() const;
  /// Makes compute wait for `streams`, or these for compute.
  void join(const std::vector<int>& streams);
  void fork(const std::vector<int>& streams);

  MemoryStatistics memory_;
  StreamOrder order_;
  StepRecord* record_ = nullptr;
  int64_t next_id_ = 0;
};

/// The cpu device: an arena that keeps the memory it got from the system and requests huge pages.
/// `threads` ≥ 1.
std::unique_ptr<Device> make_cpu_device(int threads);
/// The sim device: tensors without storage; calls append to the record and return. With side
/// streams it gets work as a GPU does, and the record has the edges between streams.
std::unique_ptr<Device> make_sim_device(bool side_streams = false);

/// Marks a scope as a sequence of the plan.
class SequenceScope {
 public:
  SequenceScope(Device& device, MemorySequence sequence) : device_(device) {
    device_.begin_sequence(sequence);
  }
  ~SequenceScope() { device_.end_sequence(); }
  SequenceScope(const SequenceScope&) = delete;
  SequenceScope& operator=(const SequenceScope&) = delete;

 private:
  Device& device_;
};

/// The only way from device to host for a scalar: reads element 0 of an f32 or f64 tensor, counted
/// in the record with its reason. On sim it returns `value_on_sim`.
double host_read(Device& device, const Tensor& tensor, std::string_view reason,
                 double value_on_sim);

}  // namespace viaduct
