#pragma once
// `Device`: memory with tags, streams, events. A rank has one device. Only the rank's host thread
// allocates and frees.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/tensor.h"
#include "timeline/record.h"

namespace viaduct {

enum class DeviceKind { cpu, cuda, sim };

/// Who holds a piece of memory; the table of `train` and the memory half of the record are by
/// these.
enum class MemoryTag {
  weights,          // weights as stored for compute (canonical form)
  derived_weights,  // packed, transposed or quantized forms of weights
  main_gradients,
  master_weights,
  moments,      // optimizer state
  saved,        // kept from forward to backward
  activations,  // live within a segment
  workspace,    // scratch of ops
  batch,        // tokens, labels, positions
  kv_cache,     // generation
  other,
};
inline constexpr int kMemoryTags = 11;
std::string_view memory_tag_name(MemoryTag tag);

/// A point in a stream's order; later work may wait for it.
struct Event {
  int stream = 0;
  int64_t position = 0;
};

struct MemoryStatistics {
  int64_t bytes_in_use = 0;
  int64_t peak_bytes = 0;                  // largest bytes_in_use since the last reset
  int64_t reserved_bytes = 0;              // what the device holds from the system
  int64_t system_allocations = 0;          // how often it asked the system for memory
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
  /// Starts a new measurement of the peak from what is in use now.
  void reset_peak();

  /// Named streams; `stream("compute")` is 0. On the cpu, compute runs inline, so events have
  /// passed when they are made.
  int stream(std::string_view name);
  Event record_event(int stream);
  virtual void wait(int stream, const Event& event) = 0;

  /// Attaches a record that all calls append to (nullptr: none). Not owned.
  void set_record(StepRecord* record) { record_ = record; }
  StepRecord* record() const { return record_; }

  /// Copies elements of equal dtype and shape between a contiguous host tensor and a contiguous
  /// tensor of this device.
  virtual void copy_from_host(const Tensor& host, const Tensor& device) = 0;
  virtual void copy_to_host(const Tensor& device, const Tensor& host) = 0;

 protected:
  /// Memory of at least `bytes` (> 0), aligned to 64 bytes; null where nothing is stored.
  /// DeviceError if there is none.
  virtual void* take(int64_t bytes) = 0;
  virtual void give(void* data, int64_t bytes) = 0;
  MemoryStatistics& statistics() { return memory_; }

 private:
  void account(MemoryTag tag, int64_t bytes);

  MemoryStatistics memory_;
  std::vector<std::string> streams_{"compute"};
  std::vector<int64_t> positions_{0};
  StepRecord* record_ = nullptr;
  int64_t next_id_ = 0;
};

/// The cpu device: an arena that keeps what it got from the system and asks for huge pages.
/// `threads` ≥ 1.
std::unique_ptr<Device> make_cpu_device(int threads);
/// The sim device: tensors without storage; calls append to the record and return.
std::unique_ptr<Device> make_sim_device();

/// The only way from device to host for a scalar: reads element 0 of an f32 or f64 tensor, counted
/// in the record with its reason. On sim it returns `value_on_sim`.
double host_read(Device& device, const Tensor& tensor, std::string_view reason,
                 double value_on_sim);

}  // namespace viaduct
