#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "bench.h"
#include "bench_device.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  int64_t m = 4096, n = 768, k = 768;
  std::string form = "forward", dtype = "bf16", cpu_isa = "auto", device = "cpu";
  bool json = false;
  int threads = 0, rounds = 9;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The product of `form` on random operands; M tokens, N output and K input features in all forms.
GemmArgs make_args(OpContext& context, const Arguments& a) {
  const DType dtype = a.dtype == "bf16" ? DType::bf16 : a.dtype == "fp16" ? DType::f16 : DType::f32;
  const auto random = [&](int64_t rows, int64_t columns, uint64_t stream) {
    const Tensor x = context.allocate(dtype, {rows, columns}, MemoryTag::activations);
    random_normal(context, {x, 0, 1, {1, stream}, 0, 0, columns});
    return x;
  };
  const auto result = [&](DType type, int64_t rows, int64_t columns) {
    const Tensor c = context.allocate(type, {rows, columns}, MemoryTag::activations);
    fill(context, {c, 0});
    return c;
  };
  if (a.form == "forward")
    return {GemmForm::forward, random(a.m, a.k, 1), random(a.n, a.k, 2), result(dtype, a.m, a.n)};
  if (a.form == "data_gradient") {
    return {GemmForm::data_gradient, random(a.m, a.n, 1), random(a.n, a.k, 2),
            result(dtype, a.m, a.k)};
  }
  return {GemmForm::weight_gradient,
          random(a.m, a.n, 1),
          random(a.m, a.k, 2),
          result(DType::f32, a.n, a.k),
          {},
          WriteMode::accumulate};
}

CpuIsa isa_of(const std::string& name) {
  for (const CpuIsa isa : kCpuIsas) {
    if (name == cpu_isa_name(isa)) return isa;
  }
  return best_cpu_isa();
}

int run(const Arguments& a) {
  const auto area = [](int64_t rows, int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(columns);
  };
  VIADUCT_CHECK(ConfigError, a.device == "cpu" || a.cpu_isa == "auto",
                "--cpu-isa {} with --device {} has no effect: a GPU runs the product", a.cpu_isa,
                a.device);
  BenchDevice device(a.device, a.threads, isa_of(a.cpu_isa));
  check_fits(4 * (area(a.m, a.k) + area(a.n, a.k) + area(a.m, a.n)),
             fmt::format("--m {} --n {} --k {}", a.m, a.n, a.k), &device);
  OpContext context = device.context();
  const GemmArgs args = make_args(context, a);
  const double flops =
      2.0 * static_cast<double>(a.m) * static_cast<double>(a.n) * static_cast<double>(a.k);
  // Rounds long enough for the clock's resolution, each with the peak measured next to it: the
  // machine's speed changes while other processes run.
  gemm(context, args);
  const double once = device.seconds([&] { gemm(context, args); });
  const int repeats = std::clamp(static_cast<int>(0.02 / (once + 1e-9)), 1, 10000);
  std::vector<double> tflops, peaks;
  MatmulPeak peak;
  for (int round = 0; round < a.rounds; ++round) {
    if (round % 4 == 0) {
      peak = product_ceiling(device, args.a.dtype());
      peaks.push_back(peak.tflops);
    }
    const double seconds = device.seconds([&] {
      for (int i = 0; i < repeats; ++i) gemm(context, args);
    });
    tflops.push_back(flops * repeats / seconds * 1e-12);
  }
  const double rate = median(tflops);
  peak.tflops = median(peaks);
  const OpTable& ops = device.ops();
  const std::string kernel{ops.gemm.choose(args, ops.traits).kernel};
  if (a.json) {
    const nlohmann::ordered_json document{
        {"m", a.m},          {"n", a.n},
        {"k", a.k},          {"form", a.form},
        {"dtype", a.dtype},  {"device", device.describe()},
        {"kernel", kernel},  {"threads", device.device().pool().threads()},
        {"tflops", rate},    {"peak_tflops", peak.tflops},
        {"peak", peak.name}, {"peak_fraction", rate / peak.tflops}};
    fmt::print("{}\n", document.dump());
    return 0;
  }
  fmt::print("{}\npeak: {}\n", device.describe(), peak.describe());
  fmt::print("{:<16} {:<6} {:>22} {:<18} {:>10} {:>8}\n", "form", "dtype", "M x N x K", "kernel",
             "TFLOP/s", "of peak");
  fmt::print("{:<16} {:<6} {:>22} {:<18} {:>10.4f} {:>7.1f}%\n", a.form, a.dtype,
             fmt::format("{} x {} x {}", a.m, a.n, a.k), kernel, rate, 100 * rate / peak.tflops);
  return 0;
}

}  // namespace

Subcommand add_bench_gemm(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand("gemm", "One matrix product of a linear layer");
  auto a = std::make_shared<Arguments>();
  const auto count = [&](const char* name, int64_t& value, const char* text) {
    app->add_option(name, value, text)
        ->capture_default_str()
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  };
  count("--m", a->m, "Tokens");
  count("--n", a->n, "Output features");
  count("--k", a->k, "Input features");
  app->add_option("--form", a->form, "Which product of the layer")
      ->capture_default_str()
      ->check(CLI::IsMember({"forward", "data_gradient", "weight_gradient"}));
  app->add_option("--dtype", a->dtype, "Format of the operands")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  add_device_option(*app, a->device);
  app->add_option("--cpu-isa", a->cpu_isa, "Instruction set (auto: the best of this machine)")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "portable", "avx2", "avx512", "avx512_bf16", "amx"}));
  add_threads_option(*app, a->threads);
  add_rounds_option(*app, a->rounds);
  app->add_flag("--json", a->json, "One JSON document");
  app->footer(
      "Example:\n  viaduct bench gemm --m 4096 --n 3072 --k 768 --form data_gradient --dtype bf16");
  return {app, [a] { return run(*a); }};
}

}  // namespace viaduct::cli
