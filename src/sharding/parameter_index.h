#pragma once
// The places of parameters, by their addresses, in one table without nodes: each use of a weight in
// a step looks for one, after the weights that were read before have pushed the table out of the
// caches nearest to the core.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace viaduct {

struct Parameter;

class ParameterIndex {
 public:
  /// The place of a parameter: the number of parameters added before it. `second`: whether it was
  /// added just now.
  std::pair<size_t, bool> add(const Parameter* parameter) {
    if (const auto known = find(parameter)) return {*known, false};
    if (2 * (count_ + 1) > slots_.size()) grow();
    put({parameter, count_});
    return {count_++, true};
  }
  /// Nothing for a parameter that was not added.
  std::optional<size_t> find(const Parameter* parameter) const {
    if (slots_.empty()) return std::nullopt;
    for (size_t i = first_slot(parameter); slots_[i].parameter != nullptr; i = next(i))
      if (slots_[i].parameter == parameter) return slots_[i].place;
    return std::nullopt;
  }

 private:
  struct Slot {
    const Parameter* parameter = nullptr;  // null: empty
    size_t place = 0;
  };
  size_t next(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  // Addresses of one allocator have their low bits and many high ones in common; the multiplier is
  // 2⁶⁴ over the golden ratio (Knuth, The Art of Computer Programming, vol. 3, 6.4).
  size_t first_slot(const Parameter* parameter) const {
    const uint64_t mixed = reinterpret_cast<uintptr_t>(parameter) * 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(mixed >> 32) & (slots_.size() - 1);
  }
  void put(const Slot& slot) {
    size_t i = first_slot(slot.parameter);
    while (slots_[i].parameter != nullptr) i = next(i);
    slots_[i] = slot;
  }
  void grow() {
    const std::vector<Slot> before =
        std::exchange(slots_, std::vector<Slot>(slots_.empty() ? 16 : 2 * slots_.size()));
    for (const Slot& slot : before)
      if (slot.parameter != nullptr) put(slot);
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them full
  size_t count_ = 0;
};

}  // namespace viaduct
