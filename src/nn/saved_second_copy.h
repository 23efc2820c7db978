#pragma once
// Of the saved store: a storage that is in the second memory, on its way there, or on its way back.

#include "nn/saved.h"
#include "nn/second_memory.h"

namespace viaduct {

struct SavedStore::SecondCopy {
  enum class State { leaving, away, coming, here };

  SecondMemory& memory;
  SecondMemory::Id id;
  int instance;                          // of the segment that kept it
  Tensor bytes;                          // u8, all of the storage; undefined while it is away
  std::shared_ptr<Storage> placeholder;  // of as many bytes, for the views of what is away
  std::vector<Key> entries = {};         // that see the storage
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
