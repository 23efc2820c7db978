#pragma once
// Part of the saved store: a storage that is in the second memory, or being copied there or back.

#include "device/second_memory.h"
#include "nn/saved.h"

namespace viaduct {

struct SavedStore::SecondCopy {
  enum class State { leaving, away, coming, here };

  SecondMemory& memory;
  SecondMemory::Id id;
  int instance;                          // of the segment that kept it
  Tensor bytes;                          // u8, all of the storage; undefined while it is away
  std::shared_ptr<Storage> placeholder;  // of the same size, for the views while it is away
  std::vector<Key> entries = {};         // entries with views of the storage
  State state = State::leaving;

  SecondCopy(SecondMemory& where, int segment, Tensor all);
  ~SecondCopy() {
    if (state != State::here) memory.drop(id);
  }
  SecondCopy(const SecondCopy&) = delete;
  SecondCopy& operator=(const SecondCopy&) = delete;

  void finish_put();
  void fetch(OpContext& ops);
};

}  // namespace viaduct
