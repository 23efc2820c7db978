#pragma once
// How an op selects and runs a kernel. An op is a function `name(OpContext&, const NameArgs&)` that
// checks shapes and dispatches through the table of its context. A backend's entry has two halves:
// `choose` reads only shapes and dtypes and returns kernel, cost and workspace; `launch` runs that
// choice. `sim` runs the target's `choose` and never launches.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "device/device.h"
#include "ops/for_each_tensor.h"
#include "ops/operand_shapes.h"
#include "timeline/record.h"

namespace viaduct {

struct OpTable;

/// Whether an output is overwritten (=) or added to (+=); every contract states which outputs
/// support both.
enum class WriteMode { assign, accumulate };

/// What an op needs besides its arguments. A value; cheap to copy.
struct OpContext {
  Device& device;
  const OpTable& ops;
  /// If not compute: launches begin after the work given to compute so far, and run in parallel
  /// with later work. Their tensors are held until compute has waited for that stream.
  int stream = kComputeStream;

  Tensor allocate(DType dtype, const Shape& shape, MemoryTag tag) const {
    return device.allocate(dtype, shape, tag);
  }
};

/// Properties of the machine behind a table. Layers and `choose` test these instead of the device's
/// kind.
struct Traits {
  std::string name;          // "cpu:avx512"
  int vector_floats = 8;     // width of a vector register in floats
  bool matrix_bf16 = false;  // has matrix units for bf16
  /// Shared memory that a block of a GPU's kernels may have.
  int64_t block_memory_bytes = 0;
  /// FP32 logits that the head makes at once: enough tokens that reading its weight and adding to
  /// its gradient, once for each chunk of them, cost little compared with the products.
  int64_t head_chunk_bytes = int64_t{128} << 20;
};

/// A backend's decision for given shapes and dtypes.
struct Choice {
  std::string_view
      kernel;       // "reference", "tiles_avx2", "flash_avx512": a string literal of the backend
  int variant = 0;  // the backend's own number of the kernel
  Cost cost;
  int launches = 1;
  int64_t workspace_bytes = 0;
  std::shared_ptr<const void> plan;  // further decisions of the backend, read only by its launch
};

template <class Args>
struct OpEntry {
  /// For dtypes that the backend does not support: DeviceError that lists the existing ones.
  Choice (*choose)(const Args&, const Traits&) = nullptr;
  /// `workspace` has choice.workspace_bytes bytes, 64-byte aligned; null if that is 0.
  void (*launch)(OpContext&, const Choice&, const Args&, void* workspace) = nullptr;
  /// A description of the call of a library in which the launch would be, for that library alone
  /// (StepRecord::library_calls); "" or null: there is none.
  std::string (*library_call)(const Choice&, const Args&) = nullptr;
};

namespace detail {
const Traits& traits_of(const OpTable& table);
double seconds_now();
/// Announces work on the context's stream, ordered behind compute if that is another stream;
/// returns its position.
int64_t begin_launch(OpContext& context);
/// Keeps a tensor that a launch on a side stream uses until compute has waited for that launch.
void hold(OpContext& context, const Tensor& tensor);
}  // namespace detail

/// Chooses, records and (on devices that execute) launches. `name` is the op's name for messages
/// and records.
template <class Args>
void dispatch(OpContext& context, std::string_view name, const OpEntry<Args>& entry,
              const Args& args) {
  VIADUCT_CHECK(DeviceError, entry.choose != nullptr, "{}: {} has no kernel for this op", name,
                detail::traits_of(context.ops).name);
  const Choice choice = entry.choose(args, detail::traits_of(context.ops));
  Tensor workspace;
  if (choice.workspace_bytes > 0) {
    workspace = context.allocate(DType::u8, {choice.workspace_bytes}, MemoryTag::workspace);
  }
  const int64_t position = detail::begin_launch(context);
  StepRecord* record = context.device.record();
  const double begin = record != nullptr ? detail::seconds_now() : 0;
  if (context.device.executes()) entry.launch(context, choice, args, workspace.raw());
  if (context.stream != kComputeStream) {
    detail::hold(context, workspace);
    for_each_tensor(args, [&](const Tensor& tensor) { detail::hold(context, tensor); });
  }
  if (record != nullptr) {
    if (entry.library_call != nullptr && record->with_library_calls())
      record->library_call(entry.library_call(choice, args));
    const double end = context.device.executes() ? detail::seconds_now() : begin;
    OpEntryRecord entry{name,        choice.kernel,          context.stream, choice.launches,
                        choice.cost, choice.workspace_bytes, begin,          end};
    if (record->with_shapes()) entry.shapes = operand_shapes(args);
    entry.stream_position = position;
    if constexpr (requires { args.spare_multiprocessors; })
      entry.spare_multiprocessors = args.spare_multiprocessors;
    record->op(std::move(entry));
  }
}

}  // namespace viaduct
