#pragma once
// cuDNN for attention: a handle, and a plan for each kind of call, made at the first call of the
// kind. No CUDA header.

#include <memory>
#include <string>

#include "ops/cuda/kernels/views.h"
#include "ops/cuda/launch/scratch_places.h"
#include "ops/cuda/library_attention.h"

namespace viaduct::cuda {

/// Addresses in device memory, multiples of 16 bytes; those of a call's first document and head.
struct AttentionMemory {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *out = nullptr, *lse = nullptr;  // read by the backward
  float scale = 1;
  void* workspace = nullptr;  // library_workspace(kind) bytes, a multiple of kLibraryAlignment
  // Of the backward:
  const void* d_out = nullptr;
  void *delta = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;  // overwritten
};

/// Why there is no library that attention could use; "" if there is one, which is loaded.
std::string attention_library_problem();

class AttentionLibrary {
 public:
  /// DeviceError if cuDNN is not there, too old, or cannot be initialised.
  AttentionLibrary();
  ~AttentionLibrary();
  AttentionLibrary(const AttentionLibrary&) = delete;
  AttentionLibrary& operator=(const AttentionLibrary&) = delete;

  /// DeviceError with the library's reason for a call that it does not support.
  void run(const LibraryAttention& kind, const AttentionMemory& memory, Stream stream);
  /// Makes the kind ready: its plan, and where the operands fit in the memory a call on whatever is
  /// there, which is overwritten.
  void prepare(const LibraryAttention& kind, ScratchPlaces memory, Stream stream);
  /// Kinds of calls so far.
  int64_t kinds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The library of the context's device, which keeps it from launch to launch. The device defines
/// it.
AttentionLibrary& attention_library(OpContext& context);

}  // namespace viaduct::cuda
