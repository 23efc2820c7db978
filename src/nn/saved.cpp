#include "nn/saved.h"

#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "nn/saved_second_copy.h"
#include "nn/saved_unit_run.h"

namespace viaduct {
namespace {

void add_elements(const Tensor& tensor, Hasher64& hash) {
  if (tensor.is_contiguous()) return hash.update(tensor.raw(), static_cast<size_t>(tensor.bytes()));
  for (int64_t i = 0; i < tensor.dim(0); ++i) add_elements(tensor.select(i), hash);
}

/// Checksum of the viewed elements; 0 if they have no memory.
uint64_t checksum(const Tensor& tensor) {
  if (!tensor || tensor.raw() == nullptr) return 0;
  Hasher64 hash;
  add_elements(tensor, hash);
  return hash.digest();
}

}  // namespace

SavedStore::SavedStore(bool keeps, const SavedPolicy* policy, SecondMemory* second)
    : policy_(policy),
      second_(policy != nullptr && policy->offloads() ? second : nullptr),
      keeps_(keeps) {
  VIADUCT_CHECK(ShapeError, !keeps || policy == nullptr || !policy->offloads() || second != nullptr,
                "saved store: the policy offloads units, but there is no second memory");
}

MemoryTag SavedStore::tag() const {
  return keeps() && !now_.dropping ? MemoryTag::saved : MemoryTag::activations;
}

MemoryTag SavedStore::statistic_tag() const {
  return keeps() ? MemoryTag::saved : MemoryTag::activations;
}

MemoryTag SavedStore::output_tag() const {
  return keeps_ && !now_.segment.drops_output ? MemoryTag::saved : MemoryTag::activations;
}

void SavedStore::hold(Entry& entry, const Tensor& value) const {
  entry.value = value;
  if (checks_writes_) entry.checksum = checksum(value);
}

void SavedStore::add(const void* owner, std::string_view name, Entry entry) {
  entry.unit = now_.unit;
  entry.order = kept_++;
  hold(entry, entry.value);
  const std::shared_ptr<UnitRun> unit = entry.output.unit;
  const auto [place, is_new] = entries_.try_emplace(key(owner, name), std::move(entry));
  VIADUCT_CHECK(ShapeError, is_new, "saved store: \"{}\" is kept twice", name);
  if (unit) unit->dropped.push_back(place->first);
}

void SavedStore::keep(const void* owner, std::string_view name, const Tensor& value) {
  keep(owner, name, value, true);
}

void SavedStore::keep_here(const void* owner, std::string_view name, const Tensor& value) {
  keep(owner, name, value, false);
}

void SavedStore::keep(const void* owner, std::string_view name, const Tensor& value,
                      bool may_leave) {
  if (!keeps()) return;
  if (now_.replayed != nullptr) return restore(owner, name, value);
  Entry entry{.value = value};
  if (now_.phase == Phase::forward) {
    entry.output = find_output(value);
    entry.is_output = entry.dropped();
    if (!entry.dropped() && now_.dropping && !now_.dropping->holds(value.storage().get()))
      entry.output.unit = now_.dropping;
    if (entry.dropped()) entry.value = Tensor();
    entry.offloads = may_leave && second_ != nullptr &&
                     policy_->of(now_.segment.block, now_.unit) == UnitPolicy::offload;
  }
  add(owner, name, std::move(entry));
}

void SavedStore::keep_statistic(const void* owner, std::string_view name, const Tensor& value) {
  if (keeps() && now_.replayed == nullptr) add(owner, name, {.value = value});
}

SavedStore::Entries::iterator SavedStore::find(const void* owner, std::string_view name) {
  const auto found = entries_.find(key(owner, name));
  VIADUCT_CHECK(ShapeError, found != entries_.end(),
                "saved store: \"{}\" was not kept by the forward", name);
  return found;
}

bool SavedStore::has(const void* owner, std::string_view name) const {
  return entries_.contains(key(owner, name));
}

SavedStore::Entries::iterator SavedStore::find_value(const void* owner, std::string_view name) {
  const auto found = find(owner, name);
  Entry& entry = found->second;
  if (entry.copy) bring_back(std::shared_ptr<SecondCopy>(entry.copy));
  if (entry.dropped()) {
    replay(entry.output.unit);
  } else if (checks_writes_) {
    VIADUCT_CHECK(ShapeError, checksum(entry.value) == entry.checksum,
                  "saved store: \"{}\" of unit \"{}\" was written to while it was kept", name,
                  entry.unit);
  }
  return found;
}

const Tensor& SavedStore::get(const void* owner, std::string_view name) {
  return find_value(owner, name)->second.value;
}

Tensor SavedStore::take(const void* owner, std::string_view name) {
  const auto found = find_value(owner, name);
  Entry& entry = found->second;
  if (!units_.empty()) replay_readers(entry.value.storage().get());
  Tensor value = std::move(entry.value);
  entries_.erase(found);
  return value;
}

std::map<std::string, int64_t> SavedStore::bytes_by_unit() const {
  // In the order of keeping, because keys are addresses.
  std::map<int64_t, std::pair<const std::string*, const Storage*>> held;
  for (const auto& [key, entry] : entries_) {
    if (entry.dropped()) continue;
    // An offloaded storage has no memory here, and a storage that was just brought back has no
    // views yet.
    const Tensor& value = entry.copy ? entry.copy->bytes : entry.value;
    if (value) held[entry.order] = {&entry.unit, value.storage().get()};
  }
  std::map<std::string, int64_t> bytes;
  std::set<const Storage*> seen;
  const auto count = [&](const std::string& unit, const Storage* storage) {
    if (seen.insert(storage).second) bytes[unit] += storage->bytes();
  };
  for (const auto& [order, of] : held) count(*of.first, of.second);
  for (const auto& weak : units_) {
    const auto unit = weak.lock();
    if (!unit || !unit->needed()) continue;
    for (const UnitRun::Input& input : unit->inputs) {
      if (input.value) count(unit->name, input.value.storage().get());
    }
  }
  return bytes;
}

SegmentScope::SegmentScope(SavedStore& store, const SegmentRun& segment) : SavedScope(store) {
  store.now_ = {};
  store.now_.segment = segment;
}

BackwardScope::BackwardScope(SavedStore& store, const SegmentRun& segment, RankContext& context,
                             const Batch& batch)
    : SavedScope(store) {
  store.now_ = {};
  store.now_.phase = SavedStore::Phase::backward;
  store.now_.segment = segment;
  store.now_.segment.drops = store.now_.segment.drops_output = false;
  store.now_.context = &context;
  store.now_.batch = &batch;
}

LayerReplayScope::LayerReplayScope(SavedStore& store, const SegmentRun& segment)
    : SavedScope(store) {
  store.now_ = {};
  store.now_.phase = SavedStore::Phase::replay;
  store.now_.segment = segment;
  store.now_.segment.drops = store.now_.segment.drops_output = false;
}

}  // namespace viaduct
