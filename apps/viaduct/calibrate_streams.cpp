// Bandwidths: passes over memory of several sizes.

#include <array>
#include <string_view>

#include "calibrator.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "ops/step_scalars.h"

namespace viaduct::cli {

void Calibrator::measure_stream(std::vector<CalibratedStream>& rows, const char* kind,
                                int64_t bytes) {
  const std::string_view name = kind;
  const int64_t tensors = name == "fill" || name == "read" ? 1
                          : name == "copy"                 ? 2
                          : name == "add"                  ? 3
                                                           : 4;
  const Shape shape{bytes / 4 / tensors};
  // The first operand of a copy or a sum has just been made by the op before.
  const bool first_is_new = name == "copy" || name == "add";
  const int64_t others = tensors - first_is_new;
  const int64_t count =
      others == 0 ? 1 : operands_beyond_cache(bytes / tensors * others, cache_bytes_);
  std::vector<OperandsInTurn> x;
  for (int64_t i = 0; i < tensors; ++i)
    x.push_back(in_turn(DType::f32, shape, first_is_new && i == 0 ? 1 : count,
                        static_cast<uint64_t>(i), 1));
  const Tensor scalars = empty(DType::f64, {kStepScalars});
  fill(context_, {scalars, 1e-3});
  fill(context_, {step_scalar(scalars, StepScalar::skip), 0});
  ThreadPool& pool = bench_.device().pool();
  std::vector<uint64_t> sums(static_cast<size_t>(pool.threads()) * 8);
  const auto read = [&](const Tensor& from) {
    constexpr int64_t kPiece = 1 << 14, kLanes = 32;  // independent sums
    const auto* words = static_cast<const uint64_t*>(from.raw());
    const int64_t all = from.bytes() / 8;
    pool.run((all + kPiece - 1) / kPiece, [&](int64_t piece, int thread) {
      const uint64_t* at = words + piece * kPiece;
      const int64_t here = std::min(kPiece, all - piece * kPiece);
      std::array<uint64_t, kLanes> lanes{};
      for (int64_t i = 0; i + kLanes <= here; i += kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += at[i + lane];
      for (uint64_t lane : lanes) sums[static_cast<size_t>(thread) * 8] += lane;
    });
  };
  const auto call = [&](int64_t i) {
    const Tensor first = x[0].at(i);
    if (name == "read") return read(first);
    if (name == "fill") return fill(context_, {first, 1.5});
    if (name == "copy") return copy(context_, {first, x[1].at(i)});
    if (name == "add") return add(context_, {first, x[1].at(i), x[2].at(i)});
    adamw(context_, {first, x[1].at(i), x[2].at(i), x[3].at(i), {}, scalars});
  };
  const Cost moved = cost([&] { call(0); });  // of a read, which is not an op, nothing
  const auto total = name == "read" ? static_cast<double>(x[0].at(0).bytes())
                                    : static_cast<double>(moved.bytes_read + moved.bytes_written);
  rows.push_back({kind, bytes, total / seconds(call) * 1e-9});
}

void Calibrator::measure_streams(std::vector<CalibratedStream>& rows) {
  // From what fits in a core's cache to much more than all caches hold.
  const double largest = bench_.gpu() ? 0x1p30 : 0x1p28;
  const auto large = static_cast<int64_t>(std::min(1.0, share_) * largest) / 48 * 48;
  std::vector<int64_t> sizes{1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 27};
  std::erase_if(sizes, [&](int64_t bytes) { return 2 * bytes > large; });
  sizes.push_back(std::max(large, int64_t{1} << 21));
  for (int64_t bytes : sizes)
    for (const char* kind : {"read", "fill", "copy", "add", "adamw"})
      // No op of a GPU only reads.
      if (!bench_.gpu() || std::string_view(kind) != "read") measure_stream(rows, kind, bytes);
}

}  // namespace viaduct::cli
