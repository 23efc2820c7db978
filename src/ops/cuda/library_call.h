#pragma once
// Calls of cuBLASLt and cuDNN that a dry run notes, so that a run can make them ready before its
// first operation with other ranks (launch/prepare_libraries.h). Notes are bytes of the kinds: they
// are read in the process that made them, by a library of the same build.

#include <string>
#include <string_view>
#include <variant>

#include "ops/cuda/library_attention.h"
#include "ops/cuda/product_kind.h"

namespace viaduct::cuda {

std::string note_of(const ProductKind& kind);
std::string note_of(const LibraryAttention& kind);

/// The kind of a note. DeviceError for other bytes.
std::variant<ProductKind, LibraryAttention> noted_kind(std::string_view note);

}  // namespace viaduct::cuda
