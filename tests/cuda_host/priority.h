#pragma once
// Priorities of the streams of the runtime's double.

struct CUstream_st;

namespace cuda_host {

/// The priority that a stream was created with: 0 is the lowest, -5 the highest.
int priority_of(const CUstream_st* stream);

}  // namespace cuda_host
