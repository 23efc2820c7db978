#pragma once
// Times pieces of work of a stream against each other. No CUDA header.

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// Whether the work of the stream is captured into a graph now, instead of running.
bool is_captured(Stream stream);

/// Seconds of `run(i, scratch)` for i in [0, count): the shortest of some rounds, after one round
/// that is not timed. `run` gives its work to the stream and writes only to `scratch`, `bytes` of
/// the GPU's memory that begin with zeros. They are the GPU's for this call alone, beside all
/// memory that a device counts; nothing is returned, and nothing run, if the GPU has no room for
/// them. The host waits for the work that the stream has so far, and for no other stream.
std::vector<double> time_work(int count, int64_t bytes, Stream stream,
                              const std::function<void(int, void*)>& run);

}  // namespace viaduct::cuda
