#include "hardware/cpu/stream_bandwidth.h"

#include <algorithm>
#include <numeric>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/clock.h"
#include "device/cpu/system_memory.h"

namespace viaduct {
namespace {

constexpr int64_t kFloats = int64_t{16} << 20;  // 64 MiB per array
constexpr int kRounds = 6;
// A thread's piece; small enough that a thread that wakes late does fewer instead of delaying the
// others.
constexpr int64_t kPiece = int64_t{1} << 18;

double seconds_of(ThreadPool& pool, FunctionRef<void(int64_t begin)> piece) {
  const double begin = steady_seconds();
  pool.run(kFloats / kPiece, [&](int64_t i, int) { piece(i * kPiece); });
  return steady_seconds() - begin;
}

double best_rate(ThreadPool& pool, double bytes, FunctionRef<void(int64_t begin)> piece) {
  double best = 0;
  for (int round = 0; round < kRounds; ++round)
    best = std::max(best, bytes / seconds_of(pool, piece));
  return best;
}

#if defined(__x86_64__)
float sum(const float* a) {
  __m128 sums[8];
  for (auto& s : sums) s = _mm_setzero_ps();
  for (int64_t i = 0; i < kPiece; i += 32) {
    for (int64_t j = 0; j < 8; ++j) sums[j] = _mm_add_ps(sums[j], _mm_load_ps(a + i + 4 * j));
  }
  float parts[4];
  for (int j = 1; j < 8; ++j) sums[0] = _mm_add_ps(sums[0], sums[j]);
  _mm_storeu_ps(parts, sums[0]);
  return parts[0] + parts[1] + parts[2] + parts[3];
}

void copy(const float* from, float* to) {
  for (int64_t i = 0; i < kPiece; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
}

void triad(const float* b, const float* c, float* a) {
  const __m128 factor = _mm_set1_ps(0.5f);
  for (int64_t i = 0; i < kPiece; i += 4) {
    const __m128 product = _mm_mul_ps(factor, _mm_load_ps(c + i));
    _mm_stream_ps(a + i, _mm_add_ps(_mm_load_ps(b + i), product));
  }
}
#else
// The compiler makes vectors of these loops.
float sum(const float* a) {
  float sums[32] = {};
  for (int64_t i = 0; i < kPiece; i += 32) {
    for (int64_t j = 0; j < 32; ++j) sums[j] += a[i + j];
  }
  return std::accumulate(sums, sums + 32, 0.0f);
}

void copy(const float* from, float* to) {
  for (int64_t i = 0; i < kPiece; ++i) to[i] = from[i];
}

void triad(const float* b, const float* c, float* a) {
  for (int64_t i = 0; i < kPiece; ++i) a[i] = b[i] + 0.5f * c[i];
}
#endif

}  // namespace

double StreamBandwidth::best() const {
  return std::max({read, copy, triad});
}

StreamBandwidth measure_stream_bandwidth(ThreadPool& pool) {
  constexpr double kBytes = 4.0 * kFloats;
  const SystemMemory memory(3 * 4 * kFloats);
  float* a = static_cast<float*>(memory.data());
  float *b = a + kFloats, *c = b + kFloats;
  // The first access allocates the pages.
  pool.run(3 * kFloats / kPiece,
           [&](int64_t i, int) { std::iota(a + i * kPiece, a + (i + 1) * kPiece, 1.0f); });
  std::vector<float> sums(kFloats / kPiece);
  StreamBandwidth result{.threads = pool.threads()};
  result.read = best_rate(pool, kBytes,
                          [&](int64_t i) { sums[static_cast<size_t>(i / kPiece)] = sum(a + i); });
  result.copy = best_rate(pool, 2 * kBytes, [&](int64_t i) { copy(b + i, a + i); });
  result.triad = best_rate(pool, 3 * kBytes, [&](int64_t i) { triad(b + i, c + i, a + i); });
  return result;
}

}  // namespace viaduct
