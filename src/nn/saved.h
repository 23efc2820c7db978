#pragma once
// The saved store: what a micro-batch keeps between forward and backward. An entry is a value and
// its unit, under the key (run of a segment, owner, name). A unit that the policy recomputes is
// dropped: the store keeps the unit's inputs instead of its values, and runs the unit again before
// the first reader. Layers only name their units and give a function that replays them; the walk
// over the segments tells the store which segment runs.
//
// Rules:
// - An output that shares an input's storage counts as that input and is not dropped.
// - `keep` of a dropped output, by any owner, stores which output it is and its view (shape,
// offset).
// - Inputs of a dropped unit are held, unless they are dropped outputs of another unit.
// - Row statistics are kept whatever the policy of their unit.
// - While a unit or a layer is recomputed, the units inside it are kept.
// - `keep` in a backward stores the value.
// - Before a storage is taken that a dropped unit reads, that unit runs, since the taker may
//   overwrite the storage.
// - A recomputed value lives until it is taken.
// - A unit's outputs are recognized in their own segment; a later segment keeps them as values.
// - Only the last taker may write to a kept value (`check_writes`).
// - A storage is copied to the second memory once, and only if all that keep it are offloaded
// units:
//   no unit that is kept, and no dropped unit that holds it as an input. All views of it come back
//   together.
// - Storages with fewer elements (of their widest view) than the policy's minimum stay.
// - `finish_offload` frees device memory and `fetch` allocates it again at fixed points of the
//   program, whether or not copies are complete earlier.

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "device/memory_tag.h"
#include "nn/saved_policy.h"
#include "tensor/tensor.h"

namespace viaduct {

struct Batch;
struct OpContext;
struct RankContext;
class SavedStore;
class SecondMemory;

/// How a unit is recomputed: a function of its layer, without captures. It keeps what the forward
/// kept, and returns the outputs in the order of `ReplayableUnit::made`.
class Replay {
 public:
  Replay() = default;
  /// `again`: (const Layer&, RankContext&, const Batch&, SavedStore&, const std::vector<Tensor>&
  /// inputs) → std::vector<Tensor>. `layer` must outlive the replay.
  template <class Layer, class Again>
  requires std::default_initializable<Again> && std::is_invocable_r_v < std::vector<Tensor>, Again,
  const Layer&, RankContext&, const Batch&, SavedStore&,
      const std::vector<Tensor>& > Replay(const Layer& layer, Again /*again*/)
      : layer_(&layer),
  run_([](const void* self, RankContext& context, const Batch& batch, SavedStore& saved,
          const std::vector<Tensor>& inputs) {
    return Again{}(*static_cast<const Layer*>(self), context, batch, saved, inputs);
  }) {}

  std::vector<Tensor> run(RankContext& context, const Batch& batch, SavedStore& saved,
                          const std::vector<Tensor>& inputs) const {
    return run_(layer_, context, batch, saved, inputs);
  }

 private:
  using Function = std::vector<Tensor> (*)(const void* layer, RankContext& context,
                                           const Batch& batch, SavedStore& saved,
                                           const std::vector<Tensor>& inputs);
  const void* layer_ = nullptr;
  Function run_ = nullptr;
};

/// One run of a segment.
struct SegmentRun {
  int instance = 0;            ///< its index in the micro-batch's chunk; part of every key
  int64_t block = -1;          ///< global number of its transformer block; −1: it has none
  bool drops = false;          ///< its layer is recomputed: nothing is kept, not even statistics
  bool drops_output = false;   ///< its outputs are dropped as well
  bool output_unread = false;  ///< recomputed only for what it keeps
  std::vector<std::string_view> unread = {};  ///< those of its outputs that nothing reads
};

class SavedStore {
 public:
  /// `keeps` false: nothing is stored (evaluation, generation). `policy` null: everything is kept.
  /// `second` receives what the policy offloads; ShapeError if it is null and the policy offloads.
  /// `policy` and `second` must outlive the store.
  explicit SavedStore(bool keeps = true, const SavedPolicy* policy = nullptr,
                      SecondMemory* second = nullptr);
  SavedStore(SavedStore&&) = default;

  /// From now on a read throws a ShapeError if the value was overwritten since it was kept, found
  /// by checksums of host memory (debug builds do this on the cpu).
  void check_writes() { checks_writes_ = true; }

  /// False if nothing is stored: by the whole store, or by the current segment, which drops.
  bool keeps() const { return keeps_ && !now_.segment.drops; }
  const SavedPolicy* policy() const { return policy_; }
  /// False if the current segment is recomputed only for what it keeps: it need not make outputs.
  bool output_is_read() const { return !now_.segment.output_unread; }
  /// The same for one of its outputs.
  bool output_is_read(std::string_view name) const {
    const auto& unread = now_.segment.unread;
    return std::find(unread.begin(), unread.end(), name) == unread.end();
  }

  /// The memory tag for a tensor that the unit in scope makes and keeps; `activations` if the unit
  /// is dropped.
  MemoryTag tag() const;
  /// The same for row statistics, and for the segment's outputs.
  MemoryTag statistic_tag() const;
  MemoryTag output_tag() const;

  /// Stores `value` under (owner, name), in the unit in scope. ShapeError if the key exists.
  void keep(const void* owner, std::string_view name, const Tensor& value);
  /// The same for what never goes to the second memory.
  void keep_here(const void* owner, std::string_view name, const Tensor& value);
  /// The same for statistics: one number for each row (or row of a head). They are kept even if the
  /// unit is dropped.
  void keep_statistic(const void* owner, std::string_view name, const Tensor& value);
  /// The value; ShapeError if there is none (a layer reads what its forward did not keep).
  const Tensor& get(const void* owner, std::string_view name);
  /// The value, for its last reader: the entry is removed.
  Tensor take(const void* owner, std::string_view name);
  bool has(const void* owner, std::string_view name) const;

  /// Calls f unless this is a second run: for side effects (loss sums, counts) that must happen
  /// once.
  template <class F>
  void once(F&& f) const {
    if (now_.phase != Phase::replay) f();
  }

  // Called by the walk over segments at fixed points of the program (nn/saved_offload.cpp). They do
  // nothing if nothing is offloaded.

  /// After the segment's forward: starts to copy what its offloaded units kept to the second
  /// memory.
  void start_offload(int instance);
  /// Waits for these copies and frees the device memory.
  void finish_offload();
  /// Allocates device memory for what the segment has in the second memory, and starts to copy it
  /// back.
  void fetch(int instance, OpContext& ops);

  /// Bytes of distinct storages held on the device, by unit. A storage is counted once, for the
  /// unit that kept it first; inputs held only for a dropped unit count as that unit's.
  std::map<std::string, int64_t> bytes_by_unit() const;
  /// The number of entries, dropped ones included.
  size_t entries() const { return entries_.size(); }

 private:
  friend class SavedScope;
  friend class UnitScope;
  friend class ReplayableUnit;
  friend class SegmentScope;
  friend class BackwardScope;
  friend class LayerReplayScope;

  using Key = std::tuple<int, const void*, std::string>;
  enum class Phase { forward, backward, replay };

  struct UnitRun;     // a unit that drops what it keeps (nn/saved_unit_run.h)
  struct SecondCopy;  // a storage in the second memory (nn/saved_second_copy.h)
  /// A view of a dropped output.
  struct OutputView {
    std::shared_ptr<UnitRun> unit;
    size_t output = 0;
    bool whole = true;  // the output itself; else a contiguous view with the following fields
    DType dtype = DType::f32;
    Shape shape;
    int64_t offset_bytes = 0;

    Tensor of(const std::vector<Tensor>& outputs) const;
  };
  struct Entry {
    Tensor value;            // undefined while it is dropped
    OutputView output = {};  // while it is dropped: its unit and, if is_output, which output it is
    bool is_output = false;  // if false, the unit's second run keeps it again under its key
    std::string unit = {};
    int64_t order = 0;                      // entries are numbered as they are kept
    uint64_t checksum = 0;                  // of the value, with check_writes
    bool offloads = false;                  // its unit is offloaded
    std::shared_ptr<SecondCopy> copy = {};  // its copy in the second memory, complete or not
    bool dropped() const { return output.unit != nullptr; }
  };
  using Entries = std::map<Key, Entry>;
  struct State {
    Phase phase = Phase::forward;
    SegmentRun segment = {};
    std::string_view unit = {};
    std::shared_ptr<UnitRun> dropping = {};  // the unit in scope, if it drops what it keeps
    UnitRun* replayed = nullptr;             // the unit that is being recomputed
    RankContext* context = nullptr;          // in a backward
    const Batch* batch = nullptr;
  };

  Key key(const void* owner, std::string_view name) const {
    return {now_.segment.instance, owner, std::string(name)};
  }
  void add(const void* owner, std::string_view name, Entry entry);
  void keep(const void* owner, std::string_view name, const Tensor& value, bool may_leave);
  void hold(Entry& entry, const Tensor& value) const;
  /// The dropped output that `value` is a view of; its unit is null if there is none, or if the
  /// view is not contiguous.
  OutputView find_output(const Tensor& value) const;
  /// In a second run: stores the value in the entry that waits for it.
  void restore(const void* owner, std::string_view name, const Tensor& value);
  Entries::iterator find(const void* owner, std::string_view name);
  /// The entry with its value, recomputed if it was dropped.
  Entries::iterator find_value(const void* owner, std::string_view name);
  /// Waits for a copy from the second memory; starts it first if it was not fetched ahead.
  void bring_back(const std::shared_ptr<SecondCopy>& copy);
  /// Recomputes the unit and restores all entries that wait for it.
  void replay(const std::shared_ptr<UnitRun>& unit);
  /// Runs the dropped units that read the storage and whose values are still needed.
  void replay_readers(const Storage* storage);
  std::shared_ptr<UnitRun> drop_unit(std::string_view unit, const std::vector<Tensor>& inputs,
                                     Replay replay);

  Entries entries_;
  std::vector<std::weak_ptr<UnitRun>> units_;        // dropped, and not yet recomputed
  std::vector<std::shared_ptr<UnitRun>> producers_;  // dropped units of the current segment
  std::vector<std::weak_ptr<SecondCopy>> copies_;    // in the order in which they were started
  State now_;
  int64_t kept_ = 0;  // entries kept so far
  const SavedPolicy* policy_;
  SecondMemory* second_;  // null if nothing is offloaded
  bool keeps_, checks_writes_ = false;
};

/// Base of the scopes: restores the outer state at its end.
class SavedScope {
 public:
  SavedScope(const SavedScope&) = delete;
  SavedScope& operator=(const SavedScope&) = delete;

 protected:
  explicit SavedScope(SavedStore& store) : store_(store), outer_(store.now_) {}
  ~SavedScope() { store_.now_ = std::move(outer_); }
  SavedStore& store_;

 private:
  SavedStore::State outer_;
};

/// Names the unit of everything kept during its lifetime (nn/saved_policy.h). The name must outlive
/// it.
class UnitScope : public SavedScope {
 public:
  UnitScope(SavedStore& store, std::string_view unit) : SavedScope(store) {
    store.now_.unit = unit;
  }
};

/// The same for a unit that can be recomputed. If the policy recomputes it, everything kept during
/// its
/// lifetime is dropped, except statistics and inputs. Until its outputs are taken, only the unit
/// writes to them.
class ReplayableUnit : public UnitScope {
 public:
  /// `inputs`: all tensors that the unit reads, except weights and the batch.
  ReplayableUnit(SavedStore& store, std::string_view unit, const std::vector<Tensor>& inputs,
                 Replay replay);
  /// Declares the outputs: they are dropped with the unit, by whichever owner they are kept.
  void made(const std::vector<Tensor>& outputs);

 private:
  std::shared_ptr<SavedStore::UnitRun> dropped_;  // null: the unit is kept
};

// For the walk over segments.

/// A segment's forward.
class SegmentScope : public SavedScope {
 public:
  SegmentScope(SavedStore& store, const SegmentRun& segment);
  ~SegmentScope() { store_.producers_.clear(); }
};

/// A segment's backward, or one half of it (inputs, weights). Units that are recomputed during it
/// get `context` and `batch`.
class BackwardScope : public SavedScope {
 public:
  BackwardScope(SavedStore& store, const SegmentRun& segment, RankContext& context,
                const Batch& batch);
};

/// The forward of a segment whose layer is recomputed.
class LayerReplayScope : public SavedScope {
 public:
  LayerReplayScope(SavedStore& store, const SegmentRun& segment);
};

}  // namespace viaduct
