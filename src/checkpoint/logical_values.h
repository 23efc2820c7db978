#pragma once
// Values of parameters, as runs of their storage on a device, to and from logical tensors.

#include <functional>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/logical_runs.h"
#include "checkpoint/tensor_source.h"
#include "device/device.h"
#include "tensor/state_formats.h"

namespace viaduct {

/// A run of a parameter's storage with its values on a device: contiguous, in any shape. Weights,
/// masters, moments or gradients; flat where they are in a format of optimizer state.
struct StoredRun {
  ParameterRun run;
  StateValues state;
  bool lifts_zeros = false;  // when it is filled: tensor/state_rounding.h
  /// For values that live in a second memory: brings them to the device, where they stay until it
  /// is called for others. Null: they are already on the device.
  std::function<StateValues(const StateValues&)> bring = nullptr;

  StateValues here() const { return bring ? bring(state) : state; }
};

/// The whole storage of each parameter, with the values `of(parameter)`.
std::vector<StoredRun> whole_runs(const std::vector<const Parameter*>& parameters,
                                  FunctionRef<Tensor(const Parameter&)> of);

/// Assigns runs that `ranks` ranks hold equal copies of, in the same order, to one rank each, which
/// saves, reads or sends them. Each rank gets about the same number of elements.
std::vector<int> owners_of_copies(const std::vector<StoredRun>& runs, int ranks);
/// The runs among them that are `rank`'s.
std::vector<StoredRun> share_of_copies(const std::vector<StoredRun>& runs, int rank, int ranks);

/// The format that holds the values of a run exactly: FP64 for those in FP64, else FP32.
DType exact_format(const StoredRun& stored);

/// factor · the values of a piece of `stored` (logical_pieces of its run), [elements] in `format`
/// in host memory, row-major in the piece.
Tensor read_logical(Device& device, const StoredRun& stored, const LogicalPiece& piece,
                    double factor = 1, DType format = DType::f32);

/// What happens if a source lacks a tensor: an error, or nothing: its elements keep their values.
enum class Lacking { error, kept };

/// Fills the runs from the logical tensors that `source` has under `name_of(part name)`, converted
/// to the runs' format, of optimizer state too; padding becomes 0. Reads only what the runs hold, a
/// bounded number of elements at a time. IoError if a tensor is missing or damaged or has another
/// shape.
void fill_runs(Device& device, const std::vector<StoredRun>& runs, const TensorSource& source,
               FunctionRef<std::string(const std::string& name)> name_of,
               Lacking lacking = Lacking::error);

}  // namespace viaduct
