#pragma once
// A double of cuDNN's backend: it keeps the attributes of our descriptors, and computes a graph
// operation by operation on the host, with FP32 values between operations, rounded where a tensor
// of the graph has 16 bits. A wrong step, stride or mask therefore gives wrong numbers.
//
//   - Before tensors are read, the workspace is overwritten with 0xFF: an operand that shares it is
//     NaN.
//   - As the library does, the ranking of engines has one configuration that is not complete and
//     one whose results vary; a plan that uses either fails when it is executed.
//   - The workspace is that of the library's plans for compute capability 9.0.
//
// Refused as by the library: changes of finalized descriptors, missing attributes, heads that are
// not multiples of 8 wide, or wider than 128, addresses that are not multiples of 16.

#include <cstddef>
#include <cstdint>
#include <string>

namespace cudnn_double {

/// Bytes that every plan asks for beyond the library's; initially 0.
void set_more_workspace(int64_t bytes);
/// What cudnnGetVersion returns; 0: that of the header.
void set_version(size_t version);
/// Executions of plans so far, and existing descriptors.
int64_t executions();
int64_t live_descriptors();

}  // namespace cudnn_double
