#pragma once
// A second memory of slots: in a file or in host memory, with a thread that copies beside the
// computation; or counted alone, for a dry run, with the same slots.

#include <map>
#include <memory>
#include <optional>

#include "nn/memory_slots.h"
#include "nn/second_memory.h"
#include "nn/slot_backing.h"

namespace viaduct {

/// Of the section `memory`: where what leaves the device goes, on each rank.
struct SecondMemorySettings {
  std::optional<std::string> path;      // folder of a file; none: host memory
  std::optional<int64_t> most_bytes{};  // of a rank; none: as much as is needed
};

/// What went to a second memory and came back.
struct OffloadCounts {
  int64_t puts = 0, fetches = 0;
  int64_t put_bytes = 0, fetched_bytes = 0;  // of the values
  int64_t most_bytes = 0;                    // how far slots reached
  double wait_seconds = 0;                   // of the host, for copies to be complete

  OffloadCounts operator-(const OffloadCounts& before) const {
    return {puts - before.puts,
            fetches - before.fetches,
            put_bytes - before.put_bytes,
            fetched_bytes - before.fetched_bytes,
            most_bytes,
            wait_seconds - before.wait_seconds};
  }
};

/// Bytes a second.
struct OffloadBandwidth {
  double write = 0, read = 0;
};

/// A copy that fails is said (IoError) where it, or any later one, is waited for; nothing is copied
/// after it.
class SlotMemory final : public SecondMemory {
 public:
  /// Without a backing nothing is copied. `most_bytes`: what slots may reach, IoError beyond.
  explicit SlotMemory(std::unique_ptr<SlotBacking> backing, std::optional<int64_t> most_bytes = {});
  ~SlotMemory() override;
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  Id put(const Tensor& value) override;
  void finish_put(Id id) override;
  void fetch(Id id, const Tensor& value) override;
  void take(Id id) override;
  void drop(Id id) noexcept override;

  /// Makes sure of room for slots up to `bytes`. IoError if there is none.
  void reserve(int64_t bytes);
  /// Writes and reads `bytes` of zeros at the beginning, while nothing is held.
  OffloadBandwidth measure(int64_t bytes);
  const OffloadCounts& counts() const { return counts_; }
  /// "file in /scratch, direct I/O"; "counted alone".
  std::string describe() const;

 private:
  class Copier;
  struct Held {
    int64_t offset = 0, bytes = 0;
    int64_t ticket = -1;  // of the last copy asked for; −1: nothing is copied
  };

  Held& held(Id id);
  void wait(const Held& held);

  std::map<Id, Held> held_;
  Id next_ = 0;
  MemorySlots slots_;
  std::optional<int64_t> most_bytes_;
  OffloadCounts counts_;
  std::unique_ptr<SlotBacking> backing_;  // null: counted alone
  std::unique_ptr<Copier> copier_;        // of a backing; ends before it
};

/// The memory of the settings; `executes` false: counted alone, without a limit. Errors as the
/// backings'.
std::unique_ptr<SlotMemory> make_second_memory(const SecondMemorySettings& settings, bool executes);

}  // namespace viaduct
