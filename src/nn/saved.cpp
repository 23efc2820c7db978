#include "nn/saved.h"

#include <set>

#include "base/error.h"

namespace viaduct {

void SavedStore::keep(const void* owner, std::string_view name, const Tensor& value) {
  if (keeps_) entries_[Key(owner, std::string(name))] = {value, unit_};
}

const Tensor& SavedStore::get(const void* owner, std::string_view name) const {
  const auto found = entries_.find(Key(owner, std::string(name)));
  VIADUCT_CHECK(ShapeError, found != entries_.end(),
                "saved store: \"{}\" was not kept by the forward", name);
  return found->second.value;
}

Tensor SavedStore::take(const void* owner, std::string_view name) {
  const auto found = entries_.find(Key(owner, std::string(name)));
  VIADUCT_CHECK(ShapeError, found != entries_.end(),
                "saved store: \"{}\" was not kept by the forward", name);
  Tensor value = std::move(found->second.value);
  entries_.erase(found);
  return value;
}

std::map<std::string, int64_t> SavedStore::bytes_by_unit() const {
  std::map<std::string, int64_t> bytes;
  std::set<const Storage*> seen;
  for (const auto& [key, entry] : entries_) {
    if (seen.insert(entry.value.storage().get()).second)
      bytes[entry.unit] += entry.value.storage()->bytes();
  }
  return bytes;
}

}  // namespace viaduct
