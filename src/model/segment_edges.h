#pragma once
// Routes tensors through or around a segment: a segment gets only the tensors that it declares,
// checked against the declaration; the others, and their gradients, bypass it.

#include "base/function_ref.h"
#include "nn/segment.h"

namespace viaduct {

/// The tensors needed before a segment if `after` is needed after it: the ones it reads, and those
/// of `after` that it does not make, in the order of names. `makes_outputs` false: without those
/// that it reads only for its outputs. ShapeError naming segment and tensor if it consumes a tensor
/// that is read later.
Edge edge_before(const Layer& layer, const Segment& segment, const RankContext& context,
                 const Batch& batch, const Edge& after, bool makes_outputs = true);

/// Where segments run again for what they keep: the outputs of `segment` that are not in `after`,
/// what the segments behind it read.
std::vector<std::string_view> unread_outputs(const Segment& segment, const Edge& after);

/// Runs the segment's forward on its declared inputs in `in`; returns its outputs and the bypassing
/// tensors, without outputs that are not read (`SavedStore::output_is_read`). ShapeError naming
/// segment and tensor if `in` lacks a declared one or has it in another dtype or shape, or if an
/// output is missing.
TensorSet forward_through(const Layer& layer, Segment& segment, RankContext& context,
                          const Batch& batch, const TensorSet& in, SavedStore& saved);

/// The same for a backward, which `call` runs: gradients of its outputs are passed in, those of its
/// inputs are returned.
TensorSet backward_through(const Layer& layer, const Segment& segment, const RankContext& context,
                           const Batch& batch, const TensorSet& d_out,
                           FunctionRef<TensorSet(const TensorSet& d_out)> call);

}  // namespace viaduct
