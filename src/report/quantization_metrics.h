#pragma once
// Measurements of quantized operands (section `tensor_inspect`) over the ranks, and as a table.

#include "comm/host_group.h"
#include "nn/quantization_log.h"

namespace viaduct {

/// The sums of all ranks' measurements, by tensor, on rank 0; nothing elsewhere. A collective call
/// of the hosts. Tensors that several ranks hold whole count once for each: shares and relative
/// errors are the same.
QuantizationLog::Tensors quantization_of_ranks(HostGroup& host,
                                               const QuantizationLog::Tensors& mine);

/// Of the elements that were not 0, how many quantization made 0: 0 to 1.
double underflow_share(const QuantizationError& measured);

/// A table of the `rows` tensors that quantization changes most, worst first: those with elements
/// that are not finite, then by relative error.
std::string quantization_table(const QuantizationLog::Tensors& tensors, size_t rows);

}  // namespace viaduct
