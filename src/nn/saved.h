#pragma once
// The saved store: what a micro-batch keeps between forward and backward. An entry is a value, who
// made it, its unit and its last reader. Whether a unit is kept, recomputed, offloaded or sharded
// is policy and never code inside a layer; the one policy built so far is to keep.

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "tensor/tensor.h"

namespace viaduct {

class SavedStore {
 public:
  /// `keeps` false: nothing is stored (evaluation, generation).
  explicit SavedStore(bool keeps = true) : keeps_(keeps) {}

  bool keeps() const { return keeps_; }
  /// Stores `value` under (owner, name). The unit is the one that a `UnitScope` names.
  void keep(const void* owner, std::string_view name, const Tensor& value);
  /// The value; ShapeError if it is not there (a layer read what its forward did not keep).
  const Tensor& get(const void* owner, std::string_view name) const;
  /// The value for its last reader: the store forgets it.
  Tensor take(const void* owner, std::string_view name);

  /// Bytes of distinct storages held, by unit; equal storages are counted once, where they were
  /// kept first.
  std::map<std::string, int64_t> bytes_by_unit() const;
  size_t entries() const { return entries_.size(); }

 private:
  friend class UnitScope;
  struct Entry {
    Tensor value;
    std::string unit;
  };
  using Key = std::pair<const void*, std::string>;
  std::map<Key, Entry> entries_;
  std::string unit_;
  bool keeps_;
};

/// Names the unit of everything kept while it lives, in a knob's words (`core_attn`, `layernorm`,
/// `mlp`, …).
class UnitScope {
 public:
  UnitScope(SavedStore& store, std::string_view unit)
      : store_(store), outer_(std::move(store.unit_)) {
    store.unit_ = unit;
  }
  ~UnitScope() { store_.unit_ = std::move(outer_); }
  UnitScope(const UnitScope&) = delete;
  UnitScope& operator=(const UnitScope&) = delete;

 private:
  SavedStore& store_;
  std::string outer_;
};

}  // namespace viaduct
