// Tokens/s of generation on random weights in the sizes of SmolLM2-135M, compared with memory
// bandwidth: each token of a text reads every weight once, so its time is at least the weights'
// bytes over the measured bandwidth. Also prints the time of a token by op, from the record.
//
//   build/release/benchmarks/decode_speed [RECIPE bf16_mixed|fp32] [BATCHES 1,8,32] [TOKENS 64]
//   [PROMPT 20]

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <numeric>
#include <sstream>

#include "generate/generator.h"
#include "generate/sampling.h"
#include "model/hf_config.h"
#include "model/initialize.h"
#include "ops/cpu/cpu_ops.h"

namespace viaduct {
namespace {

constexpr const char* kModel = R"({"model_type": "llama", "hidden_size": 576,
  "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
  "num_key_value_heads": 3, "head_dim": 64, "vocab_size": 49152, "max_position_embeddings": 8192,
  "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "hidden_act": "silu", "tie_word_embeddings": true,
  "initializer_range": 0.04})";
constexpr int kRounds = 3;

using Ids = std::vector<int32_t>;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Bytes a second that all threads read from `memory`, which is as large as the weights: part of a
/// smaller one would stay in the last cache.
double read_bandwidth(ThreadPool& pool, const Tensor& memory) {
  constexpr int64_t kPiece = int64_t{1} << 17;  // numbers, 1 MiB
  const auto* numbers = memory.data<int64_t>();
  std::atomic<int64_t> sum{0};
  const double begin = now();
  pool.run((memory.elements() + kPiece - 1) / kPiece, [&](int64_t piece, int) {
    const int64_t end = std::min(memory.elements(), (piece + 1) * kPiece);
    int64_t mine = 0;
    for (int64_t i = piece * kPiece; i < end; ++i) mine += numbers[i];
    sum += mine;
  });
  const double seconds = now() - begin;
  if (sum == 1) fmt::print(" ");  // so that the reads stay
  return static_cast<double>(memory.bytes()) / seconds;
}

/// Feeds every sequence `tokens` tokens one after the other; returns the seconds.
double decode(Generator& generator, std::vector<Ids>& feeds, int64_t tokens) {
  const auto greedy = [](int64_t, std::span<const float> logits) {
    return static_cast<int32_t>(greedy_token(logits));
  };
  const double begin = now();
  for (int64_t i = 0; i < tokens; ++i) {
    const Ids chosen = generator.step(feeds, greedy);
    for (size_t s = 0; s < feeds.size(); ++s) feeds[s] = {chosen[s]};
  }
  return now() - begin;
}

std::vector<Ids> prompts(int64_t batch, int64_t length) {
  std::vector<Ids> feeds;
  for (int64_t i = 0; i < batch; ++i) {
    Ids& ids = feeds.emplace_back();
    for (int64_t t = 0; t < length; ++t)
      ids.push_back(static_cast<int32_t>((i * 977 + t * 131) % 49152));
  }
  return feeds;
}

void print_ops(Device& device, Generator& generator, std::vector<Ids>& feeds) {
  constexpr int64_t kTokens = 16;
  StepRecord record;
  device.set_record(&record);
  const double all = decode(generator, feeds, kTokens);
  device.set_record(nullptr);
  struct Sum {
    double seconds = 0;
    int64_t calls = 0, bytes = 0;
  };
  std::map<std::string, Sum> sums;
  double inside = 0;
  for (const OpEntryRecord& op : record.ops()) {
    Sum& sum = sums[fmt::format("{} {}", op.op, op.kernel)];
    sum.seconds += op.end_seconds - op.begin_seconds;
    sum.bytes += op.cost.bytes_read + op.cost.bytes_written;
    ++sum.calls;
    inside += op.end_seconds - op.begin_seconds;
  }
  std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
  std::sort(order.begin(), order.end(),
            [](auto& a, auto& b) { return a.second.seconds > b.second.seconds; });
  for (const auto& [name, sum] : order) {
    fmt::print("    {:40} {:8.3f} ms a token, {:5} calls, {:7.2f} GB/s\n", name,
               1e3 * sum.seconds / kTokens, sum.calls / kTokens,
               static_cast<double>(sum.bytes) / sum.seconds * 1e-9);
  }
  fmt::print("    {:40} {:8.3f} ms a token (with this record)\n", "between ops",
             1e3 * (all - inside) / kTokens);
}

void measure(const std::string& recipe, const std::vector<int64_t>& batches, int64_t tokens,
             int64_t prompt) {
  const auto device = make_cpu_device(default_pool_threads(1));
  const OpTable ops = cpu_ops(best_cpu_isa());
  const ModelConfig config = read_hf_config(kModel, "SmolLM2-135M");
  const LayerSettings layers{.precision = precision_recipe(recipe)};
  const Parallelism one_rank;
  const MemorySettings memory_settings{.packed_weights =
                                           reads_packed_weights(ops, layers.precision.weight)};
  Generator generator(*device, ops, config,
                      {layers, one_rank, memory_settings, prompt + 4 * tokens + 64});
  OpContext context = generator.context();
  initialize_parameters(context, generator.store(), 1);
  generator.store().make_derived_weights();
  int64_t bytes = 0;
  for (const Parameter* parameter : generator.store().parameters()) {
    bytes += generator.store().weight(*parameter).bytes();
  }
  fmt::print("{} on {}, {} threads, {:.1f} MB of weights, {} new tokens after {}\n", recipe,
             ops.traits.name, device->pool().threads(), static_cast<double>(bytes) * 1e-6, tokens,
             prompt);
  const Tensor memory = device->allocate(DType::i64, {bytes / 8}, MemoryTag::other);
  std::iota(memory.data<int64_t>(), memory.data<int64_t>() + memory.elements(), 1);
  for (const int64_t batch : batches) {
    double best = 0, bandwidth = 0, prefill = 0;
    std::vector<Ids> feeds;
    for (int round = 0; round < kRounds; ++round) {
      bandwidth = std::max(bandwidth, read_bandwidth(device->pool(), memory));
      generator.start(batch);
      feeds = prompts(batch, prompt);
      const double first = decode(generator, feeds, 1);
      prefill = std::max(prefill, static_cast<double>(batch * prompt) / first);
      best = std::max(best, static_cast<double>(tokens) / decode(generator, feeds, tokens));
    }
    const double rate = best * static_cast<double>(bytes);
    fmt::print(
        "  batch {:3}: {:7.1f} tokens/s, {:6.2f} ms a step, {:5.1f} GB/s of weights = {:4.1f} % of "
        "{:.1f} GB/s; prompt {:.0f} tokens/s\n",
        batch, best * static_cast<double>(batch), 1e3 / best, rate * 1e-9, 100 * rate / bandwidth,
        bandwidth * 1e-9, prefill);
    print_ops(*device, generator, feeds);
  }
}

}  // namespace
}  // namespace viaduct

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  std::vector<int64_t> batches;
  std::stringstream list(argument(2, "1,8,32"));
  for (std::string size; std::getline(list, size, ',');)
    batches.push_back(std::atoll(size.c_str()));
  viaduct::measure(argument(1, "bf16_mixed"), batches, std::atoll(argument(3, "64").c_str()),
                   std::atoll(argument(4, "20").c_str()));
}
