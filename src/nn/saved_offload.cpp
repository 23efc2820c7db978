// Moves what offloaded units keep to the second memory, and back.

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "nn/context.h"
#include "nn/saved.h"
#include "nn/saved_second_copy.h"
#include "nn/saved_unit_run.h"

namespace viaduct {
namespace {

/// The view of another storage; none unless it is a slice, along some dims, of a contiguous tensor
/// in the storage.
std::optional<Tensor> view_of(const Tensor& view, const std::shared_ptr<Storage>& storage) {
  if (view.is_contiguous()) return Tensor(storage, view.dtype(), view.shape(), view.offset_bytes());
  const int64_t element = dtype_bytes(view.dtype());
  if (view.offset_bytes() % element != 0) return std::nullopt;
  // The sizes of that tensor, and where the slice begins.
  Shape sizes = view.shape();
  std::vector<int64_t> begins;
  int64_t outer = storage->bytes() / element, rest = view.offset_bytes() / element;
  for (int i = 0; i < view.rank(); ++i) {
    const int64_t stride = view.stride(i);
    if (stride < 1 || (i > 0 && outer % stride != 0)) return std::nullopt;
    sizes[i] = outer / stride;
    begins.push_back(rest / stride);
    if (begins.back() + view.dim(i) > sizes[i]) return std::nullopt;
    rest %= stride;
    outer = stride;
  }
  if (outer != 1) return std::nullopt;
  Tensor slice(storage, view.dtype(), sizes);
  for (int i = 0; i < view.rank(); ++i)
    slice = slice.slice(i, begins[static_cast<size_t>(i)], view.dim(i));
  return slice;
}

}  // namespace

SavedStore::SecondCopy::SecondCopy(SecondMemory& where, int segment, Tensor all)
    : memory(where),
      id(where.put(all)),
      instance(segment),
      bytes(std::move(all)),
      placeholder(std::make_shared<Storage>(nullptr, bytes.bytes(), [](Storage&) {})) {}

void SavedStore::SecondCopy::finish_put() {
  memory.finish_put(id);
  bytes = Tensor();
  state = State::away;
}

void SavedStore::SecondCopy::fetch(OpContext& ops) {
  bytes = ops.allocate(DType::u8, {placeholder->bytes()}, MemoryTag::saved);
  memory.fetch(id, bytes);
  state = State::coming;
}

void SavedStore::start_offload(int instance) {
  if (second_ == nullptr) return;
  struct Held {  // a storage, and the entries that view it
    int64_t order = 0;
    int64_t elements = 0;
    bool goes = true, is_of_instance = false;
    std::vector<Key> entries = {};
  };
  std::map<const Storage*, Held> storages;
  for (const auto& [key, entry] : entries_) {
    if (entry.dropped() || entry.copy || !entry.value) continue;
    const auto& storage = entry.value.storage();
    const int64_t elements = storage->bytes() / dtype_bytes(entry.value.dtype());
    const auto [place, is_new] = storages.try_emplace(storage.get(), Held{entry.order, elements});
    Held& held = place->second;
    held.order = std::min(held.order, entry.order);
    held.elements = std::min(held.elements, elements);
    held.goes = held.goes && entry.offloads && view_of(entry.value, storage).has_value();
    held.is_of_instance = held.is_of_instance || std::get<0>(key) == instance;
    held.entries.push_back(key);
  }
  std::vector<Held> going;  // in the order of keeping: keys and storages are addresses
  for (auto& [storage, held] : storages) {
    // What a dropped unit is made of stays: its replay needs it.
    const bool is_input =
        std::any_of(units_.begin(), units_.end(), [of = storage](const auto& weak) {
          const auto unit = weak.lock();
          return unit && unit->holds(of);
        });
    const bool large = held.elements >= std::max<int64_t>(1, policy_->least_offloaded());
    if (held.goes && held.is_of_instance && !is_input && large) going.push_back(std::move(held));
  }
  std::sort(going.begin(), going.end(),
            [](const Held& a, const Held& b) { return a.order < b.order; });
  for (Held& held : going) {
    const auto& storage = entries_.at(held.entries.front()).value.storage();
    const auto copy = std::make_shared<SecondCopy>(*second_, instance,
                                                   Tensor(storage, DType::u8, {storage->bytes()}));
    for (const Key& key : held.entries) entries_.at(key).copy = copy;
    copy->entries = std::move(held.entries);
    copies_.push_back(copy);
  }
}

void SavedStore::finish_offload() {
  for (const auto& weak : copies_) {
    const auto copy = weak.lock();
    if (!copy || copy->state != SecondCopy::State::leaving) continue;
    for (const Key& key : copy->entries) {
      Entry& entry = entries_.at(key);
      entry.value = *view_of(entry.value, copy->placeholder);
    }
    copy->finish_put();
  }
}

void SavedStore::fetch(int instance, OpContext& ops) {
  finish_offload();
  std::erase_if(copies_, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : copies_) {
    const auto copy = weak.lock();
    if (copy->instance != instance || copy->state != SecondCopy::State::away) continue;
    // Inputs of a group are fetched when it is recomputed: earlier they would add to the inside of
    // another group.
    if (entries_.at(copy->entries.front()).unit != unit::layer) copy->fetch(ops);
  }
}

void SavedStore::bring_back(const std::shared_ptr<SecondCopy>& copy) {
  finish_offload();
  if (copy->state == SecondCopy::State::away) {
    VIADUCT_CHECK(ShapeError, now_.context != nullptr,
                  "saved store: \"{}\" is in the second memory, and is read outside of a backward "
                  "walk",
                  std::get<2>(copy->entries.front()));
    copy->fetch(now_.context->ops);
  }
  copy->memory.take(copy->id);
  copy->state = SecondCopy::State::here;
  for (const Key& key : copy->entries) {
    Entry& entry = entries_.at(key);
    entry.value = *view_of(entry.value, copy->bytes.storage());
    entry.copy = nullptr;
  }
}

}  // namespace viaduct
