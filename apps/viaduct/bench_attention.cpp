#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "bench.h"
#include "bench_device.h"
#include "ops/attention.h"
#include "ops/costs.h"
#include "ops/elementwise.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  int64_t sequence = 1024, batch = 4, heads = 12, kv_heads = 0, head_dim = 64, window = 0;
  std::string dtype = "bf16", device = "cpu";
  bool full = false, json = false;
  int threads = 0, rounds = 9;
};

/// An op timed in every round.
struct Timed {
  std::string name, kernel;
  double flops = 0;
  std::vector<double> seconds;

  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  double tflops() const { return flops / median() * 1e-12; }
};

DType dtype_of_name(const std::string& name) {
  return name == "bf16" ? DType::bf16 : name == "fp16" ? DType::f16 : DType::f32;
}

/// Random tensors of one layer's attention.
struct Tensors {
  Tensor q, k, v, out, lse, d_out, delta, dq, dk, dv;
};

Tensors make_tensors(OpContext& context, const Arguments& a) {
  const int64_t tokens = a.batch * a.sequence;
  const auto random = [&](DType dtype, int64_t heads, uint64_t stream) {
    const Tensor x = context.allocate(dtype, {tokens, heads, a.head_dim}, MemoryTag::activations);
    random_normal(
        context,
        {x.view({tokens, heads * a.head_dim}), 0, 1, {1, stream}, 0, 0, heads * a.head_dim});
    return x;
  };
  const DType dtype = dtype_of_name(a.dtype);
  const auto per_query = [&] {
    return context.allocate(DType::f32, {a.heads, tokens}, MemoryTag::activations);
  };
  return {random(dtype, a.heads, 1),
          random(dtype, a.kv_heads, 2),
          random(dtype, a.kv_heads, 3),
          random(dtype, a.heads, 4),
          per_query(),
          random(dtype, a.heads, 5),
          per_query(),
          random(DType::f32, a.heads, 6),
          random(DType::f32, a.kv_heads, 7),
          random(DType::f32, a.kv_heads, 8)};
}

AttentionProblem make_problem(BenchDevice& device, const Arguments& a) {
  AttentionProblem problem;
  const Tensor offsets = host_tensor(DType::i32, {a.batch + 1});
  for (int64_t d = 0; d <= a.batch; ++d)
    offsets.data<int32_t>()[d] = static_cast<int32_t>(d * a.sequence);
  problem.q_offsets = problem.kv_offsets = device.on_device(offsets);
  problem.causal = !a.full;
  problem.window = a.window;
  problem.scale = 1 / std::sqrt(static_cast<double>(a.head_dim));
  problem.max_queries = problem.max_keys = a.sequence;
  if (!a.full)
    problem.visible_pairs = static_cast<double>(a.batch) * causal_pairs(a.sequence, a.window);
  return problem;
}

/// Runs `op` once, with its cost from the record.
template <class F>
void time_once(BenchDevice& device, Timed& timed, F&& op) {
  StepRecord record;
  device.device().set_record(&record);
  const double seconds = device.seconds(op);
  device.device().set_record(nullptr);
  timed.kernel = record.ops().front().kernel;
  timed.flops = record.total_cost().total_flops();
  timed.seconds.push_back(seconds);
}

int run(Arguments a) {
  if (a.kv_heads == 0) a.kv_heads = a.heads;
  if (a.heads % a.kv_heads != 0) {
    throw ConfigError(
        fmt::format("--kv-heads {}: expected a divisor of --heads {}", a.kv_heads, a.heads));
  }
  if (a.batch * a.sequence > INT32_MAX) {
    throw ConfigError(fmt::format("--batch {} × --sequence {}: expected at most {} tokens", a.batch,
                                  a.sequence, INT32_MAX));
  }
  // For query heads: query, output, its gradient, and the query's gradient; for key-value heads
  // four.
  BenchDevice device(a.device, a.threads);
  check_fits(4.0 * static_cast<double>(a.batch * a.sequence) * static_cast<double>(a.head_dim) *
                 (4.0 * static_cast<double>(a.heads) + 4.0 * static_cast<double>(a.kv_heads)),
             fmt::format("--batch {} --sequence {} --heads {} --head-dim {}", a.batch, a.sequence,
                         a.heads, a.head_dim),
             &device);
  OpContext context = device.context();
  const MatmulPeak peak = product_ceiling(device, dtype_of_name(a.dtype));
  const Tensors x = make_tensors(context, a);
  const AttentionProblem problem = make_problem(device, a);
  Timed forward{"forward", "", 0, {}}, backward{"backward", "", 0, {}};
  const AttentionBackwardArgs gradients{problem, x.q,     x.k,  x.v,  x.d_out,
                                        x.lse,   x.delta, x.dq, x.dk, x.dv};
  for (int round = 0; round <= a.rounds; ++round) {  // the first warms up
    time_once(device, forward, [&] {
      attention_forward(context, {problem, x.q, x.k, x.v, x.out, x.lse});
    });
    attention_delta(context, {x.out, x.d_out, x.delta});
    time_once(device, backward, [&] { attention_backward(context, gradients); });
    if (round == 0) forward.seconds.clear(), backward.seconds.clear();
  }
  // By the contract: a GPU computes scores again, which its choice counts.
  backward.flops = cost_of(gradients).total_flops();
  if (a.json) {
    nlohmann::ordered_json document{{"sequence", a.sequence}, {"batch", a.batch},
                                    {"heads", a.heads},       {"kv_heads", a.kv_heads},
                                    {"head_dim", a.head_dim}, {"window", a.window},
                                    {"causal", !a.full},      {"dtype", a.dtype}};
    for (const Timed* timed : {&forward, &backward}) {
      document[timed->name] = {{"kernel", timed->kernel},
                               {"seconds", timed->median()},
                               {"tflops", timed->tflops()},
                               {"peak_fraction", timed->tflops() / peak.tflops}};
    }
    document["device"] = device.describe();
    document["peak_tflops"] = peak.tflops;
    document["peak"] = peak.name;
    fmt::print("{}\n", document.dump());
    return 0;
  }
  fmt::print("{}\npeak: {}\n", device.describe(), peak.describe());
  fmt::print("{:<10} {:<14} {:>12} {:>10} {:>10}\n", "", "kernel", "ms", "TFLOP/s", "of peak");
  for (const Timed* timed : {&forward, &backward}) {
    fmt::print("{:<10} {:<14} {:>12.3f} {:>10.4f} {:>9.1f}%\n", timed->name, timed->kernel,
               timed->median() * 1e3, timed->tflops(), 100 * timed->tflops() / peak.tflops);
  }
  return 0;
}

}  // namespace

Subcommand add_bench_attention(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "attention",
      "Attention of one layer, forward and backward; causal FLOPs count visible pairs");
  auto a = std::make_shared<Arguments>();
  const auto count = [&](const char* name, int64_t& value, const char* text, int64_t least) {
    app->add_option(name, value, text)
        ->capture_default_str()
        ->check(CLI::Range(least, int64_t{1} << 30));
  };
  count("--sequence", a->sequence, "Tokens of a document", 1);
  count("--batch", a->batch, "Documents", 1);
  count("--heads", a->heads, "Query heads", 1);
  count("--kv-heads", a->kv_heads, "Key-value heads (0: as many as query heads)", 0);
  count("--head-dim", a->head_dim, "Size of a head", 1);
  count("--window", a->window, "Sliding window in tokens (0: none)", 0);
  app->add_option("--dtype", a->dtype, "Format of the tensors")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  app->add_flag("--full", a->full, "Every query sees every key, not causal");
  add_device_option(*app, a->device);
  add_threads_option(*app, a->threads);
  add_rounds_option(*app, a->rounds);
  app->add_flag("--json", a->json, "One JSON document");
  app->footer(
      "Example:\n  viaduct bench attention --sequence 1024 --batch 4 --heads 12 --head-dim 64");
  return {app, [a] { return run(*a); }};
}

}  // namespace viaduct::cli
