#pragma once
// A second memory made of slots in a file or in host memory, with a thread that copies in parallel
// with the computation. In a dry run it only assigns the same slots and counts bytes.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "device/memory_slots.h"
#include "device/second_memory.h"
#include "device/slot_backing.h"

namespace viaduct {

/// Where each rank's offloaded tensors go (section `memory` of the configuration).
struct SecondMemorySettings {
  std::optional<std::string> path;      // folder for the rank's file; none: host memory
  std::optional<int64_t> most_bytes{};  // limit for a rank; none: no limit
};

/// Traffic of a second memory.
struct OffloadCounts {
  int64_t puts = 0, fetches = 0;
  int64_t put_bytes = 0, fetched_bytes = 0;  // of the values
  int64_t most_bytes = 0;                    // highest end of a slot
  double wait_seconds = 0;                   // in which the host waited for copies

  OffloadCounts operator-(const OffloadCounts& before) const {
    return {puts - before.puts,
            fetches - before.fetches,
            put_bytes - before.put_bytes,
            fetched_bytes - before.fetched_bytes,
            most_bytes,
            wait_seconds - before.wait_seconds};
  }
  OffloadCounts& operator+=(const OffloadCounts& more) {
    puts += more.puts;
    fetches += more.fetches;
    put_bytes += more.put_bytes;
    fetched_bytes += more.fetched_bytes;
    most_bytes = std::max(most_bytes, more.most_bytes);
    wait_seconds += more.wait_seconds;
    return *this;
  }
};

/// In bytes per second.
struct OffloadBandwidth {
  double write = 0, read = 0;
};

/// A failed copy is reported (IoError) when it or any later copy is waited for; nothing is copied
/// after a failure.
class SlotMemory final : public SecondMemory {
 public:
  /// Without a backing nothing is copied. `most_bytes`: limit for the end of a slot; IoError
  /// beyond.
  explicit SlotMemory(std::unique_ptr<SlotBacking> backing, std::optional<int64_t> most_bytes = {});
  ~SlotMemory() override;
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  Id put(const Tensor& value) override;
  void finish_put(Id id) override;
  void fetch(Id id, const Tensor& value) override;
  void take(Id id) override;
  void finish_fetch(Id id) override;
  void put_again(Id id, const Tensor& value) override;
  void drop(Id id) noexcept override;

  /// Reserves room for slots up to `bytes`. IoError if there is not enough.
  void reserve(int64_t bytes);
  /// Measures by writing and reading `bytes` of zeros at the beginning, if nothing is held; returns
  /// zeros otherwise.
  OffloadBandwidth measure(int64_t bytes);
  const OffloadCounts& counts() const { return counts_; }
  /// A graph of the device made these copies, without calls here.
  void copied_by_graph(const OffloadCounts& copies) { counts_ += copies; }
  /// For messages: "file in /scratch, direct I/O"; "counted alone".
  std::string describe() const;

 private:
  class Copier;
  struct Held {
    int64_t offset = 0, bytes = 0;
    int64_t ticket = -1;  // of its last copy; −1: never copied
  };

  Held& held(Id id);
  void wait(const Held& held);

  std::map<Id, Held> held_;
  Id next_ = 0;
  MemorySlots slots_;
  std::optional<int64_t> most_bytes_;
  OffloadCounts counts_;
  std::unique_ptr<SlotBacking> backing_;  // null: only counted
  std::unique_ptr<Copier> copier_;        // if there is a backing; destroyed before it
};

/// The memory that the settings describe; with `executes` false only counted, without a limit.
/// Errors as those of the backings.
std::unique_ptr<SlotMemory> make_second_memory(const SecondMemorySettings& settings, bool executes);

}  // namespace viaduct
