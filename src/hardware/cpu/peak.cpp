#include "hardware/cpu/peak.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/philox.h"
#include "hardware/cpu/amx_permission.h"
#include "hardware/cpu/peak_loops.h"

namespace viaduct {
namespace {

// A round gives each thread some pieces, so that a thread that wakes late does fewer instead of
// delaying the others; many rounds, because both threads of a young process may share a core for a
// while.
constexpr int kRounds = 24, kGlanceRounds = 1, kPiecesPerThread = 8;
constexpr double kPieceSeconds = 1.2e-3;

double seconds_of(FunctionRef<void()> work) {
  const double begin = steady_seconds();
  work();
  return steady_seconds() - begin;
}

/// Floats in ±[0.25, 0.75].
std::vector<float> random_floats(size_t count, uint64_t stream) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const auto bits = philox4x32(0, i, stream);
    values[i] = (0.25f + 0.5f * uniform_open(bits[0])) * ((bits[1] & 1) != 0 ? 1.0f : -1.0f);
  }
  return values;
}

std::vector<uint16_t> random_bf16(size_t count, uint64_t stream) {
  std::vector<uint16_t> bits;
  for (float value : random_floats(count, stream)) bits.push_back(bfloat16(value).bits);
  return bits;
}

/// Best rate in FLOP/s of `piece(thread, iterations)` on all threads.
double best_rate(ThreadPool& pool, int rounds, double flops_per_iteration,
                 FunctionRef<void(int thread, int64_t iterations)> piece) {
  int64_t iterations = 1000;
  // Long enough to time; it also lets the core reach its clock for wide vectors.
  double seconds = seconds_of([&] { piece(0, iterations); });
  while (seconds < kPieceSeconds) {
    iterations *= 2;
    seconds = seconds_of([&] { piece(0, iterations); });
  }
  iterations = std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(iterations) * kPieceSeconds / seconds));
  const int64_t pieces = int64_t{kPiecesPerThread} * pool.threads();
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const double elapsed = seconds_of(
        [&] { pool.run(pieces, [&](int64_t, int thread) { piece(thread, iterations); }); });
    best = std::max(best, flops_per_iteration * static_cast<double>(iterations * pieces) / elapsed);
  }
  return best;
}

double fma_rate(ThreadPool& pool, int rounds, const cpu::FmaLoop& loop) {
  const size_t lanes = static_cast<size_t>(loop.lanes),
               vector = lanes * static_cast<size_t>(loop.accumulators);
  const auto x = random_floats(cpu::FmaLoop::kMultipliers * lanes, 0);
  const auto y = random_floats(cpu::FmaLoop::kAddends * lanes, 1);
  std::vector<std::vector<float>> values(static_cast<size_t>(pool.threads()),
                                         random_floats(vector, 2));
  return best_rate(pool, rounds, loop.flops_per_iteration(), [&](int thread, int64_t iterations) {
    loop.run(x.data(), y.data(), values[static_cast<size_t>(thread)].data(), iterations);
  });
}

double dot_rate(ThreadPool& pool, int rounds, const cpu::DotLoop& loop) {
  const size_t pairs = 2 * static_cast<size_t>(loop.lanes);
  const auto x = random_bf16(cpu::DotLoop::kMultipliers * pairs, 3);
  const auto y = random_bf16(cpu::DotLoop::kOthers * pairs, 4);
  const auto sums = static_cast<size_t>(loop.lanes) * static_cast<size_t>(loop.accumulators);
  std::vector<std::vector<float>> v(static_cast<size_t>(pool.threads()), std::vector<float>(sums));
  return best_rate(pool, rounds, loop.flops_per_iteration(), [&](int thread, int64_t iterations) {
    loop.run(x.data(), y.data(), v[static_cast<size_t>(thread)].data(), iterations);
  });
}

double tile_rate(ThreadPool& pool, int rounds, const cpu::TileLoop& loop) {
  const auto a = random_bf16(2 * cpu::TileLoop::kTileElements, 3),
             b = random_bf16(2 * cpu::TileLoop::kTileElements, 4);
  std::vector<std::vector<float>> c(static_cast<size_t>(pool.threads()),
                                    std::vector<float>(4 * 16 * 16));
  return best_rate(
      pool, rounds, cpu::TileLoop::kFlopsPerIteration, [&](int thread, int64_t iterations) {
        loop.run(a.data(), b.data(), c[static_cast<size_t>(thread)].data(), iterations);
      });
}

}  // namespace

MatmulPeak measure_matmul_peak(ThreadPool& pool, DType compute, CpuIsa isa, PeakEffort effort) {
  VIADUCT_CHECK(DeviceError,
                compute == DType::f32 || compute == DType::bf16 || compute == DType::f16,
                "matmul peak: of f32, bf16 or f16, not of {}", dtype_name(compute));
  VIADUCT_CHECK(
      DeviceError,
      executes(detect_cpu_features(), isa) && (isa != CpuIsa::amx || cpu::request_amx_permission()),
      "matmul peak: this machine cannot run {}", cpu_isa_name(isa));
  MatmulPeak peak{.measured = true, .threads = pool.threads()};
  const int rounds = effort == PeakEffort::thorough ? kRounds : kGlanceRounds;
  double rate = 0;
  if (compute == DType::bf16 && isa == CpuIsa::amx) {
    peak.name = "BF16 AMX";
    rate = tile_rate(pool, rounds, cpu::tile_loop_amx());
  } else if (compute == DType::bf16 && isa == CpuIsa::avx512_bf16) {
    peak.name = "BF16 AVX-512";
    rate = dot_rate(pool, rounds, cpu::dot_loop_avx512_bf16());
  } else if (isa == CpuIsa::portable) {
    peak.name = "FP32 FMA";
    rate = fma_rate(pool, rounds, cpu::fma_loop_portable());
  } else if (isa != CpuIsa::avx2) {
    peak.name = "FP32 FMA AVX-512";
    rate = fma_rate(pool, rounds, cpu::fma_loop_avx512());
  } else {
    peak.name = "FP32 FMA AVX2";
    rate = fma_rate(pool, rounds, cpu::fma_loop_avx2());
  }
  peak.tflops = rate / 1e12;
  return peak;
}

}  // namespace viaduct
