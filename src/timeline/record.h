#pragma once
// The record of a step: what ran on which stream after what, what was allocated and by whom. Plain
// types only. Devices, ops and communicators append; on `cpu` and `cuda` the record is the trace,
// on `sim` it is all that happens.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace viaduct {

/// Formats that matrix and vector units count their operations in.
enum class FlopFormat : uint8_t { f64, f32, f16, bf16 };
inline constexpr int kFlopFormats = 4;

/// What an op costs, known from shapes alone.
struct Cost {
  std::array<double, kFlopFormats> flops{};  // by FlopFormat
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;

  double total_flops() const {
    double sum = 0;
    for (double f : flops) sum += f;
    return sum;
  }
  Cost& operator+=(const Cost& other);
};

/// One launched op.
struct OpEntryRecord {
  std::string op;      // "gemm", "norm_forward", …
  std::string kernel;  // the chosen kernel
  int stream = 0;
  int launches = 1;
  Cost cost;
  int64_t workspace_bytes = 0;
  double begin_seconds = 0, end_seconds = 0;  // wall clock of this process; equal on sim
  int64_t at = 0;  // position in the sequence of all events of the record
};

/// One allocation; times are positions in the sequence of all events of the record.
struct AllocationRecord {
  int64_t id = 0;
  int64_t bytes = 0;
  std::string tag;
  int64_t allocated_at = 0;
  int64_t released_at = -1;  // −1: still held when the record ended
};

/// A collective or message of this rank; positions are in the sequence of all events of the record,
/// so that what ran between launch and completion can be read off.
struct CollectiveRecord {
  std::string operation;   // "all_reduce", "send", …
  std::string group;       // "tp", "dp.inner", …
  int ranks = 1;           // of the group
  int64_t bytes = 0;       // of the larger operand
  int64_t wire_bytes = 0;  // that this rank hands to a network
  int peer = -1;           // of messages: rank in the group
  int64_t launched_at = 0;
  int64_t completed_at = -1;      // when the host waited for it; −1: not in this record
  double launch_seconds = 0;      // wall clock of this process
  double wait_begin_seconds = 0;  // when the host began to wait for it
  double complete_seconds = 0;    // when it had waited: the difference is exposed
  double busy_seconds = 0;        // in which data moved, where the backend knows
};

/// A value that went from device to host, with the reason that the code gave.
struct HostReadRecord {
  std::string reason;
  int64_t at = 0;
};

/// Appended to while it is attached to a device; one writer, the rank's host thread.
class StepRecord {
 public:
  void op(OpEntryRecord entry);
  void allocate(int64_t id, int64_t bytes, std::string tag);
  void release(int64_t id);
  void host_read(std::string reason);
  /// A collective begins; returns its index. `complete` says that the host has waited for it.
  int64_t launch(CollectiveRecord entry);
  void complete(int64_t index, double wait_begin_seconds, double complete_seconds,
                double busy_seconds);

  const std::vector<OpEntryRecord>& ops() const { return ops_; }
  const std::vector<AllocationRecord>& allocations() const { return allocations_; }
  const std::vector<HostReadRecord>& host_reads() const { return host_reads_; }
  const std::vector<CollectiveRecord>& collectives() const { return collectives_; }
  /// Position of the next event.
  int64_t position() const { return position_; }
  Cost total_cost() const;

  /// The largest number of bytes held at once, and what each tag held at that moment.
  struct Peak {
    int64_t bytes = 0;
    std::map<std::string, int64_t> bytes_by_tag;
  };
  Peak peak() const;

 private:
  int64_t position_ = 0;
  std::vector<OpEntryRecord> ops_;
  std::vector<AllocationRecord> allocations_;
  std::map<int64_t, size_t> open_;  // id → index into allocations_
  std::vector<HostReadRecord> host_reads_;
  std::vector<CollectiveRecord> collectives_;
};

}  // namespace viaduct
