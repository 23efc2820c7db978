#pragma once
// A tensor that all tensor ranks have whole, but of which each keeps only its share between forward
// and backward (distribute_saved_activations).

#include "nn/segment.h"

namespace viaduct {

/// This tensor rank's share of a contiguous tensor: [⌈elements / tp⌉], a copy. Elements of the last
/// shares beyond the end of the tensor are undefined.
Tensor own_share(RankContext& context, const Tensor& whole);
/// The whole of it, as declared, from the shares of all tensor ranks.
Tensor gather_shares(RankContext& context, const Tensor& share, const EdgeTensor& whole);

}  // namespace viaduct
