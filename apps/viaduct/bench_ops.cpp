// viaduct bench ops: the ops of a layer, each beside a ceiling that is measured in the same run.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "bench.h"
#include "op_timings.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  LayerShape shape;
  std::string dtype = "bf16", device = "cpu";
  bool json = false;
  int threads = 0, rounds = 5;
};

struct Ceilings {
  MatmulPeak product;
  CopyCeiling copy;

  double share(const OpTiming& op) const {
    return op.bound == Bound::product ? op.tflops() / product.tflops
                                      : op.gbytes_per_second() / copy.gbytes_per_second;
  }
};

void check_shape(const LayerShape& shape) {
  VIADUCT_CHECK(ConfigError, shape.hidden % shape.heads == 0 && shape.head_dim() % 2 == 0,
                "--hidden {}: expected a multiple of 2 × --heads {}", shape.hidden, shape.heads);
  VIADUCT_CHECK(ConfigError, shape.heads % shape.kv_heads == 0,
                "--kv-heads {}: expected a divisor of --heads {}", shape.kv_heads, shape.heads);
  VIADUCT_CHECK(ConfigError, shape.sequence <= shape.tokens,
                "--sequence {}: expected at most --tokens {}", shape.sequence, shape.tokens);
}

void print_json(const Arguments& a, const BenchDevice& device, const Ceilings& ceilings,
                const std::vector<OpTiming>& timings) {
  nlohmann::ordered_json document{{"device", device.describe()},
                                  {"tokens", a.shape.tokens},
                                  {"sequence", a.shape.sequence},
                                  {"hidden", a.shape.hidden},
                                  {"ffn", a.shape.ffn},
                                  {"heads", a.shape.heads},
                                  {"kv_heads", a.shape.kv_heads},
                                  {"vocab", a.shape.vocab},
                                  {"dtype", a.dtype},
                                  {"peak", ceilings.product.name},
                                  {"peak_tflops", ceilings.product.tflops},
                                  {"copy_bytes", ceilings.copy.bytes},
                                  {"copy_gbytes_per_second", ceilings.copy.gbytes_per_second}};
  document["ops"] = nlohmann::ordered_json::array();
  for (const OpTiming& op : timings) {
    nlohmann::ordered_json row{
        {"op", op.op},           {"kernel", op.kernel},
        {"shapes", op.shapes},   {"seconds", op.seconds},
        {"tflops", op.tflops()}, {"gbytes_per_second", op.gbytes_per_second()}};
    row["bound"] = op.bound == Bound::product ? "product" : "copy";
    row["ceiling_fraction"] = ceilings.share(op);
    document["ops"].push_back(std::move(row));
  }
  fmt::print("{}\n", document.dump());
}

void print_table(const BenchDevice& device, const Ceilings& ceilings,
                 const std::vector<OpTiming>& timings) {
  fmt::print("{}\npeak: {}\ncopy: {:.4g} GB/s, {:.4g} MB read and written\n", device.describe(),
             ceilings.product.describe(), ceilings.copy.gbytes_per_second,
             static_cast<double>(ceilings.copy.bytes) * 1e-6);
  fmt::print("{:<22} {:<22} {:>12} {:>16} {:>16}  {}\n", "op", "kernel", "ms", "rate",
             "of the ceiling", "operands");
  for (const OpTiming& op : timings) {
    const bool product = op.bound == Bound::product;
    fmt::print("{:<22} {:<22} {:>12.4f} {:>16} {:>16}  {}\n", op.op, op.kernel, op.seconds * 1e3,
               product ? fmt::format("{:.4g} TFLOP/s", op.tflops())
                       : fmt::format("{:.4g} GB/s", op.gbytes_per_second()),
               fmt::format("{:.1f}% of {}", 100 * ceilings.share(op), product ? "peak" : "copy"),
               op.shapes);
  }
}

int run(Arguments a) {
  check_shape(a.shape);
  a.shape.dtype = a.dtype == "bf16" ? DType::bf16 : a.dtype == "fp16" ? DType::f16 : DType::f32;
  BenchDevice device(a.device, a.threads);
  check_fits(op_timing_bytes(device, a.shape),
             fmt::format("--tokens {} --hidden {} --ffn {} --vocab {}", a.shape.tokens,
                         a.shape.hidden, a.shape.ffn, a.shape.vocab),
             &device);
  const Ceilings ceilings{product_ceiling(device, a.shape.dtype), copy_ceiling(device)};
  const std::vector<OpTiming> timings = time_ops(device, a.shape, a.rounds);
  if (a.json) {
    print_json(a, device, ceilings, timings);
  } else {
    print_table(device, ceilings, timings);
  }
  return 0;
}

}  // namespace

Subcommand add_bench_ops(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand("ops",
                                       "The ops of a transformer layer, its embedding, its loss "
                                       "and its optimizer, one by one, beside "
                                       "the measured peak of products and the bandwidth of copies");
  auto a = std::make_shared<Arguments>();
  const auto count = [&](const char* name, int64_t& value, const char* text) {
    app->add_option(name, value, text)
        ->capture_default_str()
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  };
  count("--tokens", a->shape.tokens, "Tokens of a micro-batch");
  count("--sequence", a->shape.sequence, "Tokens of a document");
  count("--hidden", a->shape.hidden, "Features of a token");
  count("--ffn", a->shape.ffn, "Features of the feed-forward layer");
  count("--heads", a->shape.heads, "Query heads");
  count("--kv-heads", a->shape.kv_heads, "Key-value heads");
  count("--vocab", a->shape.vocab, "Size of the vocabulary");
  app->add_option("--dtype", a->dtype, "Format of activations and weights")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  add_device_option(*app, a->device);
  add_threads_option(*app, a->threads);
  add_rounds_option(*app, a->rounds, "of each op");
  app->add_flag("--json", a->json, "One JSON document");
  app->footer("Example:\n  viaduct bench ops --device cuda --tokens 8192 --hidden 4096");
  return {app, [a] { return run(*a); }};
}

}  // namespace viaduct::cli
