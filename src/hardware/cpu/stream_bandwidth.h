#pragma once
// The measured memory bandwidth of this machine: passes over arrays larger than any cache
// (McCalpin's STREAM). It is the limit of ops that compute little.

#include "base/thread_pool.h"

namespace viaduct {

/// Bytes per second, read and written together; the lines that a store fetches first are not
/// counted.
struct StreamBandwidth {
  double read = 0;   // s += a[i]
  double copy = 0;   // a[i] = b[i]
  double triad = 0;  // a[i] = b[i] + f · c[i]
  int threads = 0;

  double best() const;
};

/// On all threads of `pool`, in about a tenth of a second, with 192 MiB for that time: the best of
/// several rounds, because other work on the machine only ever lowers a round. Stores bypass the
/// caches where the processor has the instruction (x86: movntps), which is the fastest.
StreamBandwidth measure_stream_bandwidth(ThreadPool& pool);

}  // namespace viaduct
