#pragma once
// What goes through a segment and what passes it by: a segment gets the tensors that it names
// alone, checked against its declaration; the rest, and its gradients, go around it.

#include "base/function_ref.h"
#include "nn/segment.h"

namespace viaduct {

/// What has to come to a segment if `after` is to leave it: what it reads, and of `after` what it
/// does not make; in the order of names. ShapeError naming segment and tensor if it uses one up
/// that is read later.
Edge edge_before(const Layer& layer, const Segment& segment, const RankContext& context,
                 const Batch& batch, const Edge& after);

/// The segment's forward of what it names in `in`: its outputs, and what passes it by. ShapeError
/// naming segment and tensor where `in` lacks a declared one or has it in another dtype or shape,
/// or where it does not return its outputs.
TensorSet forward_through(const Layer& layer, Segment& segment, RankContext& context,
                          const Batch& batch, const TensorSet& in, SavedStore& saved);

/// The same of a backward, which `call` runs: gradients of its outputs go in, those of its inputs
/// come out.
TensorSet backward_through(const Layer& layer, const Segment& segment, const RankContext& context,
                           const Batch& batch, const TensorSet& d_out,
                           FunctionRef<TensorSet(const TensorSet& d_out)> call);

}  // namespace viaduct
