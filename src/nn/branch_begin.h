#pragma once
// The beginning of a block's branch: the norm of the stream, or the stream itself (OLMo 2).

#include <optional>
#include <string_view>

#include "nn/linear.h"
#include "nn/norm.h"

namespace viaduct {

/// The input [stream tokens, H] of the branch's first layer, in the activation format, from the
/// stream of the same shape; the norm runs as the replayable unit `unit`.
LinearInput begin_branch(RankContext& context, std::string_view unit,
                         const std::optional<Norm>& norm, const Linear& linear,
                         const Tensor& stream, SavedStore& saved);

/// The gradient [stream tokens, H] of the stream, in its format: of the branch's input `d_input`
/// through the norm, and `d_stream` of the stream after the branch.
Tensor begin_branch_backward(RankContext& context, const std::optional<Norm>& norm,
                             const Tensor& d_input, const Tensor& d_stream, SavedStore& saved);

}  // namespace viaduct
