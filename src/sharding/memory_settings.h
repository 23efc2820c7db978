#pragma once
// What a run keeps in memory, and in which form.

#include "nn/saved_policy.h"

namespace viaduct {

struct MemorySettings {
  SavedPolicy saved_policy;     // what of the forwards' values runs again in the backwards
  bool packed_weights = false;  // products read their weights as tiles that a step makes once
};

}  // namespace viaduct
