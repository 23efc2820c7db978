#pragma once
// The saved store: what a micro-batch keeps between forward and backward. An entry is a value with
// its unit, under (run of a segment, who made it, name). A unit that the policy recomputes is
// dropped: the store keeps what the unit is made of instead, and makes it run again before the
// first reader. None of this is code inside a layer: layers name their units and say how to run
// them again; who walks through the segments says where it is.
//
// Rules:
// - An output that shares an input's storage is that input, and is not dropped.
// - `keep` of a dropped output, whoever keeps it, stores which output it is and how it is seen.
// - Inputs of a dropped unit are held, unless they are dropped outputs of another unit.
// - Statistics of rows are kept whatever the policy of their unit.
// - While a unit or a layer runs again, the units inside it are kept.
// - `keep` in a backward stores the value.
// - Before a storage is taken that a dropped unit reads, that unit runs: the taker may overwrite
// it.
// - What a unit makes again lives until its taker.
// - A unit's outputs are known as such in their own segment; a later one keeps them as values.
// - Nobody but its last taker writes to what is kept (`check_writes`).
// - A storage goes to the second memory once, where units that are offloaded keep it and nobody
//   else: no unit that is kept, and no dropped unit as an input. All views of it come back
//   together.
// - Storages of fewer elements than the policy says (of the widest of their views) stay.
// - `finish_offload` gives up its memory, `fetch` asks for it again: fixed points of the program,
//   whenever copies are complete.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
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

/// How a unit is run again: a function of the layer that made it, without captures. It keeps what
/// the forward kept, and returns the outputs in the order of `ReplayableUnit::made`.
struct Replay {
  using Function = std::vector<Tensor> (*)(const void* layer, RankContext& context,
                                           const Batch& batch, SavedStore& saved,
                                           const std::vector<Tensor>& inputs);
  const void* layer = nullptr;
  Function run = nullptr;
};

/// A run of a segment, as the walker names it.
struct SegmentRun {
  int instance = 0;           ///< which one of the micro-batch in its chunk: a part of every key
  int64_t block = -1;         ///< global number of its transformer block; −1: it has none
  bool drops = false;         ///< its layer runs again: nothing is kept, statistics neither
  bool drops_output = false;  ///< what it returns is dropped, too
};

class SavedStore {
 public:
  /// `keeps` false: nothing is stored (evaluation, generation). `policy` outlives the store; null:
  /// everything is kept. `second`, which outlives the store, too, gets what the policy offloads;
  /// ShapeError if it does and there is none.
  explicit SavedStore(bool keeps = true, const SavedPolicy* policy = nullptr,
                      SecondMemory* second = nullptr);
  SavedStore(SavedStore&&) = default;

  /// From now on reads fail with a ShapeError if somebody wrote to the value since it was kept, by
  /// checksums of host memory (debug builds do so on the cpu).
  void check_writes() { checks_writes_ = true; }

  /// False where nothing is stored now: of the whole store, or of a segment that drops.
  bool keeps() const { return keeps_ && !now_.segment.drops; }
  const SavedPolicy* policy() const { return policy_; }

  /// What a tensor is counted as that the unit in scope makes and keeps: what will be dropped is
  /// `activations`.
  MemoryTag tag() const;
  /// The same of statistics of rows, and of what the segment returns.
  MemoryTag statistic_tag() const;
  MemoryTag output_tag() const;

  /// Stores `value` under (owner, name), in the unit that is in scope. ShapeError if there is one.
  void keep(const void* owner, std::string_view name, const Tensor& value);
  /// The same for one number a row (or a head's row), which a unit keeps though it is dropped.
  void keep_statistic(const void* owner, std::string_view name, const Tensor& value);
  /// The value; ShapeError if it is not there (a layer read what its forward did not keep).
  const Tensor& get(const void* owner, std::string_view name);
  /// The value for its last reader: the store forgets it.
  Tensor take(const void* owner, std::string_view name);
  bool has(const void* owner, std::string_view name) const;

  /// Calls f for its effects beside the layer's outputs (sums of losses, counts), which what runs
  /// again must not have twice.
  template <class F>
  void once(F&& f) const {
    if (now_.phase != Phase::replay) f();
  }

  // For who walks through segments, at fixed points of the program (nn/saved_offload.cpp). Nothing
  // happens where nothing is offloaded.

  /// Starts to copy what the segment has kept in offloaded units to the second memory. Its forward
  /// is over.
  void start_offload(int instance);
  /// Gives up the memory of all that leaves, once it is copied.
  void finish_offload();
  /// Asks for memory for what the segment has in the second memory, and starts to copy it back.
  void fetch(int instance, OpContext& ops);

  /// Bytes of distinct storages held on the device, by unit; equal storages are counted once, where
  /// they were kept first. Inputs that are held for a dropped unit alone are that unit's.
  std::map<std::string, int64_t> bytes_by_unit() const;
  /// Values to be read, dropped ones included.
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
  /// A dropped output as someone sees it.
  struct OutputView {
    std::shared_ptr<UnitRun> unit;
    size_t output = 0;
    bool whole = true;  // as the unit returned it; else contiguous, as follows
    DType dtype = DType::f32;
    Shape shape;
    int64_t offset_bytes = 0;

    Tensor of(const std::vector<Tensor>& outputs) const;
  };
  struct Entry {
    Tensor value;            // undefined while it is dropped
    OutputView output = {};  // of a dropped one: its unit, and
    bool is_output = false;  // which output it is; else the unit keeps it again under its key
    std::string unit = {};
    int64_t order = 0;                      // of keeping
    uint64_t checksum = 0;                  // of the value, where writes are checked
    bool offloads = false;                  // its unit is offloaded
    std::shared_ptr<SecondCopy> copy = {};  // where it is in the second memory, or under way
    bool dropped() const { return output.unit != nullptr; }
  };
  using Entries = std::map<Key, Entry>;
  struct State {
    Phase phase = Phase::forward;
    SegmentRun segment = {};
    std::string_view unit = {};
    std::shared_ptr<UnitRun> dropping = {};  // the unit in scope, if it drops what it keeps
    UnitRun* replayed = nullptr;             // the unit that runs again
    RankContext* context = nullptr;          // of a walk backwards
    const Batch* batch = nullptr;
  };

  Key key(const void* owner, std::string_view name) const {
    return {now_.segment.instance, owner, std::string(name)};
  }
  void add(const void* owner, std::string_view name, Entry entry);
  void hold(Entry& entry, const Tensor& value) const;
  /// The dropped output that `value` is a view of; no unit if it is of none, or a view that cannot
  /// be described.
  OutputView find_output(const Tensor& value) const;
  /// Of what runs again: puts the value where it is waited for.
  void restore(const void* owner, std::string_view name, const Tensor& value);
  Entries::iterator find(const void* owner, std::string_view name);
  /// The entry with its value, made again if it was dropped.
  Entries::iterator find_value(const void* owner, std::string_view name);
  /// Waits for what comes from the second memory, and fetches it if nobody did ahead.
  void bring_back(const std::shared_ptr<SecondCopy>& copy);
  /// Runs the unit again and restores all that waits for it.
  void replay(const std::shared_ptr<UnitRun>& unit);
  /// Runs the dropped units that read the storage and are needed.
  void replay_readers(const Storage* storage);
  std::shared_ptr<UnitRun> drop_unit(std::string_view unit, const std::vector<Tensor>& inputs,
                                     Replay replay);

  Entries entries_;
  std::vector<std::weak_ptr<UnitRun>> units_;        // dropped and not run again yet
  std::vector<std::shared_ptr<UnitRun>> producers_;  // of the segment that runs
  std::vector<std::weak_ptr<SecondCopy>> copies_;    // in the order of leaving
  State now_;
  int64_t kept_ = 0;  // so far: the order of entries
  const SavedPolicy* policy_;
  SecondMemory* second_;  // null where nothing is offloaded
  bool keeps_, checks_writes_ = false;
};

/// What scopes have in common: what they set ends with them.
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

/// Names the unit of everything kept while it lives (nn/saved_policy.h). The name outlives it.
class UnitScope : public SavedScope {
 public:
  UnitScope(SavedStore& store, std::string_view unit) : SavedScope(store) {
    store.now_.unit = unit;
  }
};

/// The same for a unit that can run again. Where the policy recomputes it, what is kept meanwhile
/// is dropped, but for statistics and inputs. Nobody but the unit writes to its outputs before they
/// are taken.
class ReplayableUnit : public UnitScope {
 public:
  /// `inputs`: all tensors that the unit is made of, beside weights and the batch.
  ReplayableUnit(SavedStore& store, std::string_view unit, const std::vector<Tensor>& inputs,
                 Replay replay);
  /// The outputs, which are dropped with the unit wherever they are kept.
  void made(const std::vector<Tensor>& outputs);

 private:
  std::shared_ptr<SavedStore::UnitRun> dropped_;  // null: the unit is kept
};

// For those who walk through segments.

/// A segment's forward.
class SegmentScope : public SavedScope {
 public:
  SegmentScope(SavedStore& store, const SegmentRun& segment);
  ~SegmentScope() { store_.producers_.clear(); }
};

/// A half of a segment's backward, or both; units that run again meanwhile get `context` and
/// `batch`.
class BackwardScope : public SavedScope {
 public:
  BackwardScope(SavedStore& store, const SegmentRun& segment, RankContext& context,
                const Batch& batch);
};

/// The forward of a segment whose layer runs again.
class LayerReplayScope : public SavedScope {
 public:
  LayerReplayScope(SavedStore& store, const SegmentRun& segment);
};

}  // namespace viaduct
