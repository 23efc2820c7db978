// The ops that stream memory, each beside a plain copy of the same run: GB/s by the op's own cost,
// and the fraction of the copy's rate. Operands are rotated through sets that together do not fit
// into the caches ("cold"), or are one set used again ("warm"), which is closer to a step, where an
// op reads the output of the previous one. One program for all ops, so that each figure and its
// copy are measured at nearly the same time on a noisy machine.
//
//   streaming_ops [threads] [part of an op's name]

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gemm.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/rotary.h"

namespace viaduct {
namespace {

constexpr int64_t kFootprint = int64_t{192} << 20;  // more bytes than the machine's caches hold
constexpr int64_t kTokens = 4096;
constexpr int kRounds = 9;

double seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Plain streams over two large buffers, on all threads of the pool.
class Stream {
 public:
  explicit Stream(OpContext& context)
      : pool_(context.device.pool()),
        from_(context.allocate(DType::f32, {kFootprint / 8}, MemoryTag::other)),
        to_(context.allocate(DType::f32, {kFootprint / 8}, MemoryTag::other)) {
    fill(context, {from_, 1});
    fill(context, {to_, 1});
  }
  /// Bytes read and written per second.
  double copy() const {
    const double begin = seconds();
    for_pieces([&](size_t at, size_t n) { std::memcpy(bytes(to_) + at, bytes(from_) + at, n); });
    return static_cast<double>(2 * from_.bytes()) / (seconds() - begin);
  }
  /// The same with non-temporal stores: the destination is not read first.
  double copy_past_caches() const {
    const double begin = seconds();
    for_pieces([&](size_t at, size_t n) {
      const auto* from = reinterpret_cast<const __m256i*>(bytes(from_) + at);
      auto* to = reinterpret_cast<__m256i*>(bytes(to_) + at);
      for (size_t i = 0; i < n / 32; i += 4) {
        const __m256i a = _mm256_load_si256(from + i), b = _mm256_load_si256(from + i + 1);
        const __m256i c = _mm256_load_si256(from + i + 2), d = _mm256_load_si256(from + i + 3);
        _mm256_stream_si256(to + i, a), _mm256_stream_si256(to + i + 1, b);
        _mm256_stream_si256(to + i + 2, c), _mm256_stream_si256(to + i + 3, d);
      }
    });
    return static_cast<double>(2 * from_.bytes()) / (seconds() - begin);
  }
  /// In place: to = 3 · to.
  double update() const {
    const double begin = seconds();
    for_pieces([&](size_t at, size_t n) {
      auto* to = reinterpret_cast<uint32_t*>(bytes(to_) + at);
      for (size_t i = 0; i < n / 4; ++i) to[i] *= 3;
    });
    return static_cast<double>(2 * from_.bytes()) / (seconds() - begin);
  }
  double read() const {
    const double begin = seconds();
    for_pieces([&](size_t at, size_t n) {
      const auto* p = reinterpret_cast<const uint64_t*>(bytes(from_) + at);
      uint64_t sums[32] = {};
      for (size_t i = 0; i < n / 8; i += 32) {
        for (size_t j = 0; j < 32; ++j) sums[j] += p[i + j];
      }
      volatile uint64_t sink = 0;
      for (uint64_t s : sums) sink = sink + s;
    });
    return static_cast<double>(from_.bytes()) / (seconds() - begin);
  }

 private:
  template <class F>
  void for_pieces(const F& f) const {
    constexpr int64_t kPiece = 1 << 20;
    pool_.run(from_.bytes() / kPiece, [&](int64_t task, int) {
      f(static_cast<size_t>(task * kPiece), static_cast<size_t>(kPiece));
    });
  }
  static std::byte* bytes(const Tensor& t) { return static_cast<std::byte*>(t.raw()); }
  ThreadPool& pool_;
  Tensor from_, to_;
};

/// An op with its operands.
using Run = std::function<void()>;
struct Case {
  std::string name;
  std::function<Run()> make;  // new operands
};

class Table {
 public:
  Table(OpContext& context, std::string filter)
      : context_(context), stream_(context), filter_(std::move(filter)) {}

  void measure(const Case& c) {
    if (c.name.find(filter_) == std::string::npos) return;
    std::vector<Run> runs{c.make()};
    StepRecord record;
    context_.device.set_record(&record);
    runs[0]();
    context_.device.set_record(nullptr);
    const Cost cost = record.total_cost();
    const double bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
    const double held = bytes * 0.5;
    while (static_cast<double>(runs.size()) * held < static_cast<double>(kFootprint) &&
           runs.size() < 64) {
      runs.push_back(c.make());
    }
    for (const Run& run : runs) run();
    std::vector<double> plain, past, update, read, cold, warm;
    for (int round = 0; round < kRounds; ++round) {
      plain.push_back(stream_.copy());
      past.push_back(stream_.copy_past_caches());
      update.push_back(stream_.update());
      read.push_back(stream_.read());
      double begin = seconds();
      for (const Run& run : runs) run();
      cold.push_back((seconds() - begin) / static_cast<double>(runs.size()));
      runs[0]();
      begin = seconds();
      runs[0](), runs[0](), runs[0]();
      warm.push_back((seconds() - begin) / 3);
    }
    const double streams[] = {median(plain), median(past), median(update), median(read)};
    const double best = *std::max_element(streams, streams + 3);
    const double c_s = median(cold), w_s = median(warm);
    std::printf("%-42s %8.1f %6.1f %4.0f%% %8.1f %6.1f %4.0f%%   %4.0f %4.0f %4.0f %4.0f\n",
                c.name.c_str(), c_s * 1e6, bytes / c_s * 1e-9, 100 * bytes / c_s / best, w_s * 1e6,
                bytes / w_s * 1e-9, 100 * bytes / w_s / best, streams[0] * 1e-9, streams[1] * 1e-9,
                streams[2] * 1e-9, streams[3] * 1e-9);
    std::fflush(stdout);
  }

  void head() const {
    std::printf("%-42s %8s %6s %5s %8s %6s %5s   %s\n", "op", "cold us", "GB/s", "", "warm us",
                "GB/s", "", "GB/s: copy, past caches, update, read");
  }

 private:
  OpContext& context_;
  Stream stream_;
  std::string filter_;
};

class Operands {
 public:
  explicit Operands(OpContext& context) : context_(context) {}
  Tensor random(DType dtype, const Shape& shape, double deviation = 1) {
    const Tensor x = context_.allocate(dtype, shape, MemoryTag::activations);
    const Tensor flat = x.view({x.elements()});
    // One drawn piece, repeated: drawing is slow.
    const int64_t piece = std::min<int64_t>(x.elements(), 1 << 16);
    random_normal(context_, {flat.slice(0, 0, piece), 0, deviation, {1, ++stream_}, 0, 0, piece});
    for (int64_t done = piece; done < x.elements(); done += piece) {
      const int64_t n = std::min(piece, x.elements() - done);
      viaduct::copy(context_, {flat.slice(0, 0, n), flat.slice(0, done, n)});
    }
    return x;
  }
  Tensor integers(DType dtype, int64_t count, int64_t modulus) {
    const Tensor x = context_.allocate(dtype, {count}, MemoryTag::activations);
    uint64_t state = ++stream_;
    for (int64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto value = static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(modulus));
      if (dtype == DType::i32) {
        x.data<int32_t>()[i] = static_cast<int32_t>(value);
      } else {
        x.data<int64_t>()[i] = value;
      }
    }
    return x;
  }
  Tensor scalars() {
    const Tensor s = context_.allocate(DType::f64, {kStepScalars}, MemoryTag::other);
    fill(context_, {s, 1});
    s.data<double>()[static_cast<int>(StepScalar::skip)] = 0;
    return s;
  }

 private:
  OpContext& context_;
  uint64_t stream_ = 0;
};

void optimizer_cases(OpContext& c, Operands& o, std::vector<Case>& cases) {
  for (const auto& [label, n] :
       {std::pair{"38.6M", int64_t{38597376}}, {"590K", int64_t{589824}}}) {
    cases.push_back({std::string("adamw, bf16 weight, ") + label, [&c, &o, n = n]() -> Run {
                       AdamWArgs a;
                       a.master = o.random(DType::f32, {n}), a.gradient = o.random(DType::f32, {n});
                       a.first = o.random(DType::f32, {n}), a.second = o.random(DType::f32, {n});
                       fill(c, {a.second, 0.5});
                       a.weight = o.random(DType::bf16, {n});
                       a.scalars = o.scalars();
                       return [&c, a] { adamw(c, a); };
                     }});
    cases.push_back({std::string("reproducible_sum, squared, ") + label, [&c, &o, n = n]() -> Run {
                       ReproducibleSumArgs a{
                           o.random(DType::f32, {n}), Tensor(), true,
                           c.allocate(DType::f64, {kReproducibleSumSize}, MemoryTag::other)};
                       fill(c, {a.state, 0});
                       return [&c, a] { reproducible_sum(c, a); };
                     }});
  }
}

void norm_cases(OpContext& c, Operands& o, std::vector<Case>& cases) {
  for (const int64_t H : {768, 384}) {
    for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
      const bool layer = kind == NormKind::layer_norm;
      const std::string label =
          std::string(layer ? "layer norm" : "RMS norm") + ", bf16, " + std::to_string(H);
      cases.push_back(
          {"norm_forward " + label, [&c, &o, H, kind, layer]() -> Run {
             NormForwardArgs a;
             a.kind = kind;
             a.x = o.random(DType::bf16, {kTokens, H}), a.y = o.random(DType::bf16, {kTokens, H});
             a.weight = o.random(DType::bf16, {H});
             if (layer)
               a.bias = o.random(DType::bf16, {H}), a.mean = o.random(DType::f32, {kTokens});
             a.rstd = o.random(DType::f32, {kTokens});
             return [&c, a] { norm_forward(c, a); };
           }});
      cases.push_back(
          {"norm_backward " + label, [&c, &o, H, kind, layer]() -> Run {
             NormBackwardArgs a;
             a.kind = kind;
             a.x = o.random(DType::bf16, {kTokens, H}), a.dy = o.random(DType::bf16, {kTokens, H});
             a.dx = o.random(DType::bf16, {kTokens, H}),
             a.dx_add = o.random(DType::bf16, {kTokens, H});
             a.weight = o.random(DType::bf16, {H}), a.d_weight = o.random(DType::f32, {H});
             if (layer)
               a.d_bias = o.random(DType::f32, {H}), a.mean = o.random(DType::f32, {kTokens});
             a.rstd = o.random(DType::f32, {kTokens});
             return [&c, a] { norm_backward(c, a); };
           }});
    }
  }
}

void activation_cases(OpContext& c, Operands& o, std::vector<Case>& cases) {
  struct Shape_ {
    const char* label;
    ActivationKind kind;
    bool gated;
    int64_t F;
  };
  for (const Shape_ s : {Shape_{"gelu, 3072", ActivationKind::gelu, false, 3072},
                         Shape_{"gelu_tanh, 3072", ActivationKind::gelu_tanh, false, 3072},
                         Shape_{"swiglu, 2048", ActivationKind::silu, true, 2048},
                         Shape_{"swiglu, 1024", ActivationKind::silu, true, 1024}}) {
    cases.push_back({std::string("activation_forward ") + s.label, [&c, &o, s]() -> Run {
                       ActivationForwardArgs a{
                           s.kind, s.gated,
                           o.random(DType::bf16, {kTokens, s.gated ? 2 * s.F : s.F}),
                           o.random(DType::bf16, {kTokens, s.F})};
                       return [&c, a] { activation_forward(c, a); };
                     }});
    cases.push_back({std::string("activation_backward ") + s.label, [&c, &o, s]() -> Run {
                       const int64_t width = s.gated ? 2 * s.F : s.F;
                       ActivationBackwardArgs a{s.kind, s.gated,
                                                o.random(DType::bf16, {kTokens, s.F}),
                                                o.random(DType::bf16, {kTokens, width}),
                                                o.random(DType::bf16, {kTokens, width})};
                       return [&c, a] { activation_backward(c, a); };
                     }});
  }
}

void elementwise_cases(OpContext& c, Operands& o, std::vector<Case>& cases) {
  cases.push_back({"add, bf16, 768", [&c, &o]() -> Run {
                     AddArgs a{o.random(DType::bf16, {kTokens, 768}),
                               o.random(DType::bf16, {kTokens, 768}),
                               o.random(DType::bf16, {kTokens, 768})};
                     return [&c, a] { add(c, a); };
                   }});
  cases.push_back({"copy f32 heads to bf16 slice of d_qkv", [&c, &o]() -> Run {
                     const Tensor to = o.random(DType::bf16, {kTokens, 2304});
                     CopyArgs a{o.random(DType::f32, {kTokens, 12, 64}),
                                to.slice(1, 768, 768).view({kTokens, 12, 64})};
                     return [&c, a] { viaduct::copy(c, a); };
                   }});
  cases.push_back({"copy transposed, f32 768 x 3072", [&c, &o]() -> Run {
                     CopyArgs a{o.random(DType::f32, {768, 3072}).transposed(0, 1),
                                o.random(DType::f32, {3072, 768})};
                     return [&c, a] { viaduct::copy(c, a); };
                   }});
  cases.push_back({"copy transposed, f32 768 x 3072 to bf16", [&c, &o]() -> Run {
                     CopyArgs a{o.random(DType::f32, {768, 3072}).transposed(0, 1),
                                o.random(DType::bf16, {3072, 768})};
                     return [&c, a] { viaduct::copy(c, a); };
                   }});
  cases.push_back({"fill, f32, 38.6M", [&c, &o]() -> Run {
                     FillArgs a{o.random(DType::f32, {38597376}), 0};
                     return [&c, a] { fill(c, a); };
                   }});
  cases.push_back({"dropout with residual, bf16, 768", [&c, &o]() -> Run {
                     DropoutArgs a;
                     a.x = o.random(DType::bf16, {kTokens, 768}),
                     a.residual = o.random(DType::bf16, {kTokens, 768});
                     a.out = o.random(DType::bf16, {kTokens, 768});
                     a.probability = 0.1, a.key = {1, 2};
                     a.token_index = o.integers(DType::i64, kTokens, 1 << 30);
                     return [&c, a] { dropout(c, a); };
                   }});
  cases.push_back(
      {"random_normal, f32, 768 x 768", [&c, &o]() -> Run {
         RandomNormalArgs a{o.random(DType::f32, {768, 768}), 0, 0.02, {1, 2}, 0, 0, 768};
         return [&c, a] { random_normal(c, a); };
       }});
  cases.push_back(
      {"random_normal, f32, 768 x 768 transposed", [&c, &o]() -> Run {
         RandomNormalArgs a{o.random(DType::f32, {768, 768}), 0, 0.02, {1, 2}, 0, 0, 768, true};
         return [&c, a] { random_normal(c, a); };
       }});
  for (const int64_t N : {3072, 768, 256}) {
    cases.push_back(
        {"column_sum, bf16, " + std::to_string(N), [&c, &o, N]() -> Run {
           ColumnSumArgs a{o.random(DType::bf16, {kTokens, N}), o.random(DType::f32, {N})};
           return [&c, a] { column_sum(c, a); };
         }});
  }
}

void model_cases(OpContext& c, Operands& o, std::vector<Case>& cases) {
  for (const bool inverse : {false, true}) {
    cases.push_back(
        {inverse ? "rotary inverse, f32, 12 heads" : "rotary, bf16, 12 heads of 64 in qkv",
         [&c, &o, inverse]() -> Run {
           RotaryArgs a;
           a.x = inverse ? o.random(DType::f32, {kTokens, 12, 64})
                         : o.random(DType::bf16, {kTokens, 1280})
                               .slice(1, 0, 768)
                               .view({kTokens, 12, 64});
           a.positions = o.integers(DType::i32, kTokens, 1024);
           a.cos = o.random(DType::f32, {1024, 32}), a.sin = o.random(DType::f32, {1024, 32});
           a.inverse = inverse;
           return [&c, a] { rotary(c, a); };
         }});
  }
  cases.push_back({"embedding_forward, bf16, 50304 x 768", [&c, &o]() -> Run {
                     EmbeddingForwardArgs a;
                     a.ids = o.integers(DType::i32, kTokens, 50304);
                     a.weight = o.random(DType::bf16, {50304, 768}),
                     a.out = o.random(DType::bf16, {kTokens, 768});
                     return [&c, a] { embedding_forward(c, a); };
                   }});
  for (const int64_t V : {50304, 256}) {
    cases.push_back({"embedding_backward, " + std::to_string(V) + " x 768", [&c, &o, V]() -> Run {
                       EmbeddingBackwardArgs a;
                       a.ids = o.integers(DType::i32, kTokens, V);
                       a.d_out = o.random(DType::bf16, {kTokens, 768}),
                       a.d_weight = o.random(DType::f32, {V, 768});
                       return [&c, a] { embedding_backward(c, a); };
                     }});
  }
  for (const int64_t V : {50304, 256}) {
    const int64_t rows = V > 1000 ? 256 : kTokens;
    cases.push_back(
        {"cross_entropy_forward, " + std::to_string(rows) + " x " + std::to_string(V),
         [&c, &o, V, rows]() -> Run {
           CrossEntropyForwardArgs a;
           a.logits = o.random(DType::f32, {rows, V}), a.targets = o.integers(DType::i32, rows, V);
           a.lse = o.random(DType::f32, {rows}), a.target_logit = o.random(DType::f32, {rows});
           a.columns = V;
           return [&c, a] { cross_entropy_forward(c, a); };
         }});
    cases.push_back(
        {"cross_entropy_backward, " + std::to_string(rows) + " x " + std::to_string(V),
         [&c, &o, V, rows]() -> Run {
           CrossEntropyBackwardArgs a;
           a.logits = o.random(DType::f32, {rows, V}), a.targets = o.integers(DType::i32, rows, V);
           a.lse = o.random(DType::f32, {rows}), a.weight = o.random(DType::f32, {rows});
           fill(c, {a.lse, 11}), fill(c, {a.weight, 1});
           a.factor = c.allocate(DType::f64, {1}, MemoryTag::other);
           fill(c, {a.factor, 1});
           a.out = o.random(DType::bf16, {rows, V});
           a.columns = V;
           return [&c, a] { cross_entropy_backward(c, a); };
         }});
  }
}

/// An empty job on all threads: the fixed cost of a launch.
void pool_latency(ThreadPool& pool) {
  for (const int gap_us : {0, 5, 20, 100, 1000}) {
    std::vector<double> times;
    for (int i = 0; i < 301; ++i) {
      const double until = seconds() + gap_us * 1e-6;
      while (seconds() < until) {
      }
      const double begin = seconds();
      pool.run(pool.threads(), [](int64_t, int) {});
      times.push_back(seconds() - begin);
    }
    std::sort(times.begin(), times.end());
    std::printf("empty job after %4d us alone: median %.2f us, 90 %% below %.2f us\n", gap_us,
                times[times.size() / 2] * 1e6, times[times.size() * 9 / 10] * 1e6);
  }
}

CpuIsa widest_isa() {
  CpuIsa widest = CpuIsa::avx2;
  for (const CpuIsa isa : kCpuIsas) {
    if (cpu_supports(isa)) widest = isa;
  }
  return widest;
}

}  // namespace
}  // namespace viaduct

int main(int argc, char** argv) {
  using namespace viaduct;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const auto device = make_cpu_device(threads);
  const OpTable ops = cpu_ops(widest_isa());
  OpContext context{*device, ops};
  if (argc > 2 && std::string(argv[2]) == "pool") {
    pool_latency(device->pool());
    return 0;
  }
  Operands operands(context);
  std::vector<Case> cases;
  optimizer_cases(context, operands, cases);
  norm_cases(context, operands, cases);
  activation_cases(context, operands, cases);
  elementwise_cases(context, operands, cases);
  model_cases(context, operands, cases);
  Table table(context, argc > 2 ? argv[2] : "");
  table.head();
  for (const Case& c : cases) table.measure(c);
  pool_latency(device->pool());
  return 0;
}
