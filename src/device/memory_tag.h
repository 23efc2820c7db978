#pragma once
// What memory is used for.

#include <string_view>

namespace viaduct {

/// The use of a piece of memory; the memory table of `train` and the memory part of the record are
/// grouped by it.
enum class MemoryTag {
  weights,          // weights as stored for compute (canonical form)
  derived_weights,  // packed, transposed or quantized forms of weights
  main_gradients,
  master_weights,
  moments,      // optimizer state
  saved,        // kept from forward to backward
  activations,  // used within a segment only
  workspace,    // scratch of ops
  batch,        // tokens, labels, positions
  kv_cache,     // generation
  other,
};
inline constexpr int kMemoryTags = 11;
std::string_view memory_tag_name(MemoryTag tag);

}  // namespace viaduct
