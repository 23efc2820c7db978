// Units whose tensors are dropped, and how the store recomputes them.

#include <algorithm>

#include "base/error.h"
#include "nn/saved.h"
#include "nn/saved_unit_run.h"

namespace viaduct {

SavedStore::UnitRun::Output::Output(const Tensor& tensor)
    : storage(tensor.storage()),
      dtype(tensor.dtype()),
      shape(tensor.shape()),
      offset_bytes(tensor.offset_bytes()) {
  for (int i = 0; i < tensor.rank(); ++i) strides.push_back(tensor.stride(i));
}

bool SavedStore::UnitRun::Output::is_of(const std::shared_ptr<Storage>& other) const {
  // Compared by owner: the address of a freed storage may be reused.
  return other != nullptr && !storage.owner_before(other) && !other.owner_before(storage);
}

bool SavedStore::UnitRun::Output::looks_like(const Tensor& tensor) const {
  if (dtype != tensor.dtype() || shape != tensor.shape() || offset_bytes != tensor.offset_bytes())
    return false;
  for (int i = 0; i < tensor.rank(); ++i) {
    if (strides[static_cast<size_t>(i)] != tensor.stride(i)) return false;
  }
  return true;
}

bool SavedStore::UnitRun::needed() const {
  return !dropped.empty() ||
         std::any_of(waiting.begin(), waiting.end(), [](const std::weak_ptr<UnitRun>& weak) {
           const auto unit = weak.lock();
           return unit && unit->needed();
         });
}

bool SavedStore::UnitRun::holds(const Storage* storage) const {
  return std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) {
    return input.value && input.value.storage().get() == storage;
  });
}

Tensor SavedStore::OutputView::of(const std::vector<Tensor>& outputs) const {
  const Tensor& tensor = outputs[output];
  return whole ? tensor : Tensor(tensor.storage(), dtype, shape, offset_bytes);
}

SavedStore::OutputView SavedStore::find_output(const Tensor& value) const {
  OutputView view{nullptr, 0, true, value.dtype(), value.shape(), value.offset_bytes()};
  for (const auto& unit : producers_) {
    for (size_t i = 0; i < unit->outputs.size(); ++i) {
      const UnitRun::Output& output = unit->outputs[i];
      if (!output.is_of(value.storage())) continue;
      if (output.looks_like(value)) {
        view.unit = unit, view.output = i, view.whole = true;
        return view;
      }
      if (!view.unit && value.is_contiguous())
        view.unit = unit, view.output = i, view.whole = false;
    }
  }
  return view;
}

std::shared_ptr<SavedStore::UnitRun> SavedStore::drop_unit(std::string_view name,
                                                           const std::vector<Tensor>& inputs,
                                                           Replay replay) {
  auto unit = std::make_shared<UnitRun>();
  unit->name = name;
  unit->segment = now_.segment;
  unit->replay = replay;
  for (const Tensor& tensor : inputs) {
    UnitRun::Input& input = unit->inputs.emplace_back();
    input.output = find_output(tensor);
    if (input.output.unit) {
      input.output.unit->waiting.push_back(unit);
    } else {
      input.value = tensor;
    }
  }
  std::erase_if(units_, [](const std::weak_ptr<UnitRun>& weak) { return weak.expired(); });
  units_.push_back(unit);
  return unit;
}

void SavedStore::restore(const void* owner, std::string_view name, const Tensor& value) {
  const auto found = entries_.find(key(owner, name));
  if (found == entries_.end()) return;  // already taken
  Entry& entry = found->second;
  // Outputs get their value from the unit's return value.
  if (entry.output.unit.get() != now_.replayed || entry.is_output) return;
  hold(entry, value);
  entry.output.unit = nullptr;
}

void SavedStore::replay(const std::shared_ptr<UnitRun>& unit) {
  VIADUCT_CHECK(ShapeError, now_.context != nullptr,
                "saved store: unit {} of block {} was dropped, and is read outside of a backward "
                "walk: it cannot be recomputed",
                unit->name, unit->segment.block);
  const std::shared_ptr<UnitRun> running = unit;  // its entries release it
  std::vector<Tensor> inputs;
  for (UnitRun::Input& input : running->inputs) {
    if (!input.value) replay(std::shared_ptr<UnitRun>(input.output.unit));
    inputs.push_back(input.value);
  }
  std::vector<Tensor> outputs;
  {
    class ReplayScope : public SavedScope {
     public:
      ReplayScope(SavedStore& store, UnitRun& unit) : SavedScope(store) {
        State& now = store.now_;
        now.phase = Phase::replay;
        now.segment = unit.segment;
        now.unit = unit.name;
        now.replayed = &unit;
      }
    } const scope(*this, *running);
    outputs = running->replay.run(*now_.context, *now_.batch, *this, inputs);
  }
  VIADUCT_CHECK(ShapeError, outputs.size() == running->outputs.size(),
                "saved store: unit {} of block {} ran again and returned {} outputs, {} before",
                running->name, running->segment.block, outputs.size(), running->outputs.size());
  for (const Key& key : running->dropped) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    if (entry.is_output) {
      hold(entry, entry.output.of(outputs));
      entry.output.unit = nullptr;
    }
    VIADUCT_CHECK(ShapeError, !entry.dropped(),
                  "saved store: unit {} of block {} ran again and did not keep \"{}\"",
                  running->name, running->segment.block, std::get<2>(key));
  }
  for (const auto& weak : running->waiting) {
    const auto reader = weak.lock();
    if (!reader) continue;
    for (UnitRun::Input& input : reader->inputs) {
      if (input.output.unit != running) continue;
      input.value = input.output.of(outputs);
      input.output.unit = nullptr;
    }
  }
  running->dropped.clear();
  running->waiting.clear();
  running->inputs.clear();
  std::erase_if(units_, [&](const std::weak_ptr<UnitRun>& weak) {
    return weak.expired() || weak.lock() == running;
  });
}

void SavedStore::replay_readers(const Storage* storage) {
  for (;;) {
    const auto reader = std::find_if(units_.begin(), units_.end(), [&](const auto& weak) {
      const auto unit = weak.lock();
      return unit && unit->holds(storage) && unit->needed();
    });
    if (reader == units_.end()) return;
    replay(reader->lock());
  }
}

ReplayableUnit::ReplayableUnit(SavedStore& store, std::string_view unit,
                               const std::vector<Tensor>& inputs, Replay replay)
    : UnitScope(store, unit) {
  SavedStore::State& now = store.now_;
  if (!store.keeps() || store.policy_ == nullptr || now.phase != SavedStore::Phase::forward ||
      now.dropping || store.policy_->of(now.segment.block, unit) != UnitPolicy::recompute)
    return;
  dropped_ = store.drop_unit(unit, inputs, replay);
  now.dropping = dropped_;
}

void ReplayableUnit::made(const std::vector<Tensor>& outputs) {
  if (!dropped_) return;
  for (const Tensor& output : outputs) {
    const bool is_input =
        dropped_->holds(output.storage().get()) || store_.find_output(output).unit != nullptr;
    dropped_->outputs.push_back(is_input ? SavedStore::UnitRun::Output()
                                         : SavedStore::UnitRun::Output(output));
  }
  store_.producers_.push_back(dropped_);
}

}  // namespace viaduct
