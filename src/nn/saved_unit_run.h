#pragma once
// Part of the saved store: a unit that ran and whose kept tensors were dropped, until it runs
// again.

#include "nn/saved.h"

namespace viaduct {

struct SavedStore::UnitRun {
  struct Input {
    Tensor value;            // held; undefined while dropped
    OutputView output = {};  // a dropped output of another unit
  };
  /// Metadata of an output as the unit returned it, without its storage.
  struct Output {
    std::weak_ptr<Storage> storage;
    DType dtype = DType::f32;
    Shape shape;
    std::vector<int64_t> strides;
    int64_t offset_bytes = 0;

    Output() = default;  // without a storage: no tensor is a view of it
    explicit Output(const Tensor& tensor);
    bool is_of(const std::shared_ptr<Storage>& other) const;
    bool looks_like(const Tensor& tensor) const;
  };

  std::string name;
  SegmentRun segment;
  Replay replay;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Key> dropped;                     // entries that it restores
  std::vector<std::weak_ptr<UnitRun>> waiting;  // units with inputs that it restores

  /// Whether a dropped tensor will still be read.
  bool needed() const;
  /// Whether it holds this storage as an input.
  bool holds(const Storage* storage) const;
};

}  // namespace viaduct
