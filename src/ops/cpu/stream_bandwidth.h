#pragma once
// The memory bandwidth of this machine, measured: passes over arrays that no cache holds
// (McCalpin's STREAM). It is what an op that computes little cannot pass.

#include "base/thread_pool.h"

namespace viaduct {

/// Bytes a second, read and written ones together; the lines that a store first fetches are not
/// counted.
struct StreamBandwidth {
  double read = 0;   // s += a[i]
  double copy = 0;   // a[i] = b[i]
  double triad = 0;  // a[i] = b[i] + f · c[i]
  int threads = 0;

  double best() const;
};

/// On all threads of `pool`, in about a tenth of a second, with 192 MiB for that time: the best of
/// several rounds, as other work on the machine only ever lowers one. Stores do not go through the
/// caches where the compiler has them (`_mm_stream_ps`), which is the fastest.
StreamBandwidth measure_stream_bandwidth(ThreadPool& pool);

}  // namespace viaduct
