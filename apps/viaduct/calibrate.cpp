#include "calibrate.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "collective_timing.h"
#include "comm/world.h"
#include "device/device.h"
#include "hardware/cpu/peak.h"
#include "hardware/cpu_features.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/step_scalars.h"

namespace viaduct::cli {
namespace {

constexpr int kRounds = 3;
constexpr int64_t kDrawn = 999'983;  // prime: no row starts at a repeat

/// Bytes of memory, from /proc/meminfo; 1 if unknown.
int64_t memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  file >> name >> kibibytes;
  return name == "MemTotal:" && file.good() ? std::max<int64_t>(1, kibibytes * 1024) : 1;
}

const char* name_of(DType dtype) {
  return dtype == DType::bf16 ? "bf16" : "fp32";
}

/// Measures everything in the same way: random operands, one warm-up call, the median of a few
/// rounds.
class Calibrator {
 public:
  explicit Calibrator(const CalibrationEffort& effort)
      : device_(make_cpu_device(effort.threads)),
        ops_(cpu_ops(best_cpu_isa())),
        share_(effort.seconds / 60),
        round_seconds_(share_ * 0.05),
        most_flops_(share_ * 40e9) {}

  CalibratedMachine machine() const;
  void measure_peaks(std::vector<CalibratedPeak>& rows);
  void measure_gemm(std::vector<CalibratedGemm>& rows);
  void measure_attention(std::vector<CalibratedAttention>& rows);
  void measure_streams(std::vector<CalibratedStream>& rows);
  CalibratedLaunch measure_launch();

 private:
  Tensor empty(DType dtype, const Shape& shape) {
    return context_.allocate(dtype, shape, MemoryTag::other);
  }
  /// Normal random numbers, at most a million of them, repeated: generating them takes longer than
  /// most measurements.
  Tensor random(DType dtype, const Shape& shape, uint64_t stream, double mean = 0) {
    const Tensor x = empty(dtype, shape);
    const int64_t drawn = std::min(x.elements(), kDrawn), bytes = drawn * dtype_bytes(dtype);
    const Tensor start = x.view({x.elements()}).slice(0, 0, drawn);
    random_normal(context_, {start, mean, 0.1, {1, stream}, 0, 0, drawn});
    for (int64_t at = bytes; at < x.bytes(); at += bytes) {
      std::memcpy(static_cast<char*>(x.raw()) + at, x.raw(),
                  static_cast<size_t>(std::min(bytes, x.bytes() - at)));
    }
    return x;
  }
  /// Seconds of one call.
  template <class Call>
  double seconds(Call&& call);
  template <class Call>
  Cost cost(Call&& call);
  void measure_stream(std::vector<CalibratedStream>& rows, const char* kind, int64_t bytes);

  std::unique_ptr<Device> device_;
  OpTable ops_;
  OpContext context_{*device_, ops_};
  double share_;  // fraction of the minute that the whole grid takes
  double round_seconds_, most_flops_;
};

template <class Call>
double Calibrator::seconds(Call&& call) {
  call();
  double begin = steady_seconds();
  call();
  const int calls = std::clamp(static_cast<int>(round_seconds_ / (steady_seconds() - begin + 1e-9)),
                               1, 1'000'000);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    begin = steady_seconds();
    for (int i = 0; i < calls; ++i) call();
    rounds.push_back((steady_seconds() - begin) / calls);
  }
  std::sort(rounds.begin(), rounds.end());
  return std::max(rounds[kRounds / 2], 1e-12);
}

template <class Call>
Cost Calibrator::cost(Call&& call) {
  StepRecord record;
  device_->set_record(&record);
  call();
  device_->set_record(nullptr);
  return record.total_cost();
}

CalibratedMachine Calibrator::machine() const {
  return {describe(detect_cpu_features()),
          std::string(cpu_isa_name(best_cpu_isa())),
          std::max<int64_t>(1, std::thread::hardware_concurrency()),
          device_->pool().threads(),
          memory_bytes(),
          fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))};
}

void Calibrator::measure_peaks(std::vector<CalibratedPeak>& rows) {
  for (DType dtype : {DType::bf16, DType::f32}) {
    const MatmulPeak peak = measure_matmul_peak(device_->pool(), dtype, best_cpu_isa());
    rows.push_back({name_of(dtype), peak.name, peak.tflops});
  }
}

void Calibrator::measure_gemm(std::vector<CalibratedGemm>& rows) {
  // Output and input features: tiny, square, and the two of a feed-forward layer.
  constexpr int64_t kFeatures[][2] = {
      {64, 64}, {384, 384}, {1024, 1024}, {4096, 1024}, {1024, 4096}};
  constexpr std::pair<GemmForm, const char*> kForms[] = {
      {GemmForm::forward, "forward"},
      {GemmForm::data_gradient, "data_gradient"},
      {GemmForm::weight_gradient, "weight_gradient"}};
  for (DType dtype : {DType::bf16, DType::f32}) {
    for (int64_t m : {128, 1024, 4096}) {
      for (const auto& [n, k] : kFeatures) {
        const double flops = 2.0 * static_cast<double>(m * n * k);
        if (flops > most_flops_) continue;
        const Tensor x = random(dtype, {m, k}, 1), w = random(dtype, {n, k}, 2);
        const Tensor dy = random(dtype, {m, n}, 3), y = random(dtype, {m, n}, 4);
        const Tensor dx = random(dtype, {m, k}, 5), dw = random(DType::f32, {n, k}, 6);
        for (const auto& [form, form_name] : kForms) {
          GemmArgs args{form, x, w, y};
          if (form == GemmForm::data_gradient) args = {form, dy, w, dx};
          if (form == GemmForm::weight_gradient)
            args = {form, dy, x, dw, {}, WriteMode::accumulate};
          const double time = seconds([&] { gemm(context_, args); });
          rows.push_back({form_name, name_of(dtype), m, n, k, flops / time * 1e-12});
        }
      }
    }
  }
}

void Calibrator::measure_attention(std::vector<CalibratedAttention>& rows) {
  constexpr int64_t kTokens = 4096, kWidth = 512;
  for (DType dtype : {DType::bf16, DType::f32}) {
    for (int64_t D : {64, 128}) {
      for (int64_t S : {256, 1024, 4096}) {
        const int64_t heads = kWidth / D;
        // Approximate FLOPs of the forward of one document.
        const double work = 2 * static_cast<double>(S * S * kWidth);
        const int64_t documents = std::min(kTokens / S, static_cast<int64_t>(most_flops_ / work));
        if (documents < 1) continue;
        AttentionProblem problem;
        problem.q_offsets = empty(DType::i32, {documents + 1});
        for (int64_t d = 0; d <= documents; ++d)
          problem.q_offsets.data<int32_t>()[d] = static_cast<int32_t>(d * S);
        problem.kv_offsets = problem.q_offsets;
        problem.scale = 1 / std::sqrt(static_cast<double>(D));
        problem.max_queries = problem.max_keys = S;
        const Shape shape{documents * S, heads, D};
        const Tensor q = random(dtype, shape, 1), k = random(dtype, shape, 2);
        const Tensor v = random(dtype, shape, 3), out = random(dtype, shape, 4);
        const Tensor d_out = random(dtype, shape, 5), dq = random(DType::f32, shape, 6);
        const Tensor dk = random(DType::f32, shape, 7), dv = random(DType::f32, shape, 8);
        const Tensor lse = empty(DType::f32, {heads, documents * S});
        const Tensor delta = empty(DType::f32, {heads, documents * S});
        const auto forward = [&] { attention_forward(context_, {problem, q, k, v, out, lse}); };
        const auto backward = [&] {
          attention_backward(context_, {problem, q, k, v, d_out, lse, delta, dq, dk, dv});
        };
        const auto add_row = [&](const char* direction, double flops, double time) {
          rows.push_back(
              {direction, name_of(dtype), S, documents, heads, heads, D, flops / time * 1e-12});
        };
        add_row("forward", cost(forward).total_flops(), seconds(forward));
        attention_delta(context_, {out, d_out, delta});
        add_row("backward", cost(backward).total_flops(), seconds(backward));
      }
    }
  }
}

void Calibrator::measure_stream(std::vector<CalibratedStream>& rows, const char* kind,
                                int64_t bytes) {
  const std::string_view name = kind;
  const int64_t tensors = name == "fill" || name == "read" ? 1
                          : name == "copy"                 ? 2
                          : name == "add"                  ? 3
                                                           : 4;
  const Shape shape{bytes / 4 / tensors};
  std::vector<Tensor> x;
  for (int64_t i = 0; i < tensors; ++i)
    x.push_back(random(DType::f32, shape, static_cast<uint64_t>(i), 1));
  const Tensor scalars = empty(DType::f64, {kStepScalars});
  fill(context_, {scalars, 1e-3});
  fill(context_, {step_scalar(scalars, StepScalar::skip), 0});
  std::vector<uint64_t> sums(static_cast<size_t>(device_->pool().threads()) * 8);
  const auto read = [&] {
    constexpr int64_t kPiece = 1 << 14, kLanes = 32;  // independent sums
    const auto* words = static_cast<const uint64_t*>(x[0].raw());
    const int64_t count = x[0].bytes() / 8;
    device_->pool().run((count + kPiece - 1) / kPiece, [&](int64_t piece, int thread) {
      const uint64_t* at = words + piece * kPiece;
      const int64_t here = std::min(kPiece, count - piece * kPiece);
      std::array<uint64_t, kLanes> lanes{};
      for (int64_t i = 0; i + kLanes <= here; i += kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += at[i + lane];
      for (uint64_t lane : lanes) sums[static_cast<size_t>(thread) * 8] += lane;
    });
  };
  const auto call = [&] {
    if (name == "read") return read();
    if (name == "fill") return fill(context_, {x[0], 1.5});
    if (name == "copy") return copy(context_, {x[0], x[1]});
    if (name == "add") return add(context_, {x[0], x[1], x[2]});
    adamw(context_, {x[0], x[1], x[2], x[3], {}, scalars});
  };
  const Cost moved = cost(call);
  const auto total = name == "read" ? static_cast<double>(x[0].bytes())
                                    : static_cast<double>(moved.bytes_read + moved.bytes_written);
  rows.push_back({kind, bytes, total / seconds(call) * 1e-9});
}

void Calibrator::measure_streams(std::vector<CalibratedStream>& rows) {
  // One in a core's cache, one much larger than all caches.
  const auto large = static_cast<int64_t>(std::min(1.0, share_) * 0x1p28) / 48 * 48;
  for (int64_t bytes : {int64_t{1} << 19, std::max(large, int64_t{1} << 21)}) {
    for (const char* kind : {"read", "fill", "copy", "add", "adamw"})
      measure_stream(rows, kind, bytes);
  }
}

CalibratedLaunch Calibrator::measure_launch() {
  const Tensor x = random(DType::f32, {16}, 1), y = random(DType::f32, {16}, 2);
  const double op = seconds([&] { scale(context_, {x, y, 0.5}); });
  const double parallel =
      seconds([&] { device_->pool().run(device_->pool().threads(), [](int64_t, int) {}); });
  return {op * 1e6, parallel * 1e6};
}

void measure_all_reduce(std::vector<CalibratedAllReduce>& rows, double seconds) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<int> counts{2};
  if (cores > 2) counts.push_back(cores);
  for (int ranks : counts) {
    for (int64_t bytes : {1 << 12, 1 << 16, 1 << 20, 1 << 24}) {
      if (static_cast<double>(bytes) > seconds * 0x1p20) continue;
      CollectiveProblem problem;
      problem.bytes = bytes;
      problem.rounds = std::max(1, static_cast<int>(seconds / 60 * 9));
      CollectiveTiming timing;
      run_thread_ranks(ranks, {}, [&](std::shared_ptr<Communicator> world) {
        const CollectiveTiming mine = time_collective(*world, problem);
        if (world->rank() == 0) timing = mine;
      });
      rows.push_back({ranks, bytes, timing.microseconds, timing.bus_gbytes_per_second});
    }
  }
}

}  // namespace

Calibration calibrate(const CalibrationEffort& effort) {
  Calibration table;
  {
    Calibrator calibrator(effort);
    table.machine = calibrator.machine();
    calibrator.measure_peaks(table.peaks);
    calibrator.measure_gemm(table.gemm);
    calibrator.measure_attention(table.attention);
    calibrator.measure_streams(table.streams);
    table.launch = calibrator.measure_launch();
  }
  measure_all_reduce(table.all_reduce, effort.seconds);
  return table;
}

}  // namespace viaduct::cli
