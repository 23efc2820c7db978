// Communication of tensor, pipeline and context ranks, and how it hides under compute.

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

constexpr const char* kOneContextRank = "cp = 1";
/// The guides: clusters of 1 or 2 blocks.
constexpr int kMostAdvisedCga = 2;

std::string bytes(double value) {
  return format_bytes(static_cast<int64_t>(value));
}

bool overlaps_tensors(const Figures& f) {
  return f.config.tensor_overlap.tp_comm_overlap.value_or(false);
}
/// That of all layers; nothing where each has its own.
std::optional<ContextExchange> context_type(const Figures& f) {
  const auto& types = f.config.context_parallel.cp_comm_type;
  return types.is_list() ? std::nullopt : std::optional(types.at(0));
}

Finding tp_overlap_off(const Figures& f, const Thresholds& limits) {
  if (f.tp == 1) return not_applicable("tp = 1");
  if (!f.sequence_cut) return not_applicable("sequence parallelism is off (sp-off)");
  if (overlaps_tensors(f)) return not_applicable("communication of tensor ranks is overlapped");
  if (!f.times) return unknown(kNoTimes);
  const double exposed = f.times->share(f.times->exposed_of("tp"));
  if (exposed <= limits[Limit::exposed_min])
    return not_applicable(
        fmt::format("exposed communication of tensor ranks is {:.1f} %", 100 * exposed));
  return if_gain(
      Level::warn,
      fmt::format("tensor ranks exchange {} a step, exposed {:.1f} %",
                  bytes(f.traffic_of("tp").bytes), 100 * exposed),
      {{"a step", f.traffic_of("tp").bytes, "bytes"}, {"exposed", exposed, "of the step"}},
      {change({"comm_overlap.tp_comm_overlap=true"})});
}

/// The same run with this number for all products.
Advice with_num_sm(int number) {
  return change({fmt::format("comm_overlap.num_sm={}", number)});
}

Finding tp_overlap_sms(const Figures& f, const Thresholds& limits) {
  if (f.tp == 1 || !overlaps_tensors(f))
    return not_applicable("communication of tensor ranks is not overlapped");
  const TensorOverlapConfig& overlap = f.config.tensor_overlap;
  const KernelSettings& kernels = overlap.kernels;
  if (kernels.cga_size.value_or(0) > kMostAdvisedCga)
    return fires(Level::warn,
                 fmt::format("clusters of NCCL's kernels have {} blocks (comm_overlap.cga_size): "
                             "more than {} rarely fit beside a product",
                             *kernels.cga_size, kMostAdvisedCga),
                 {{"blocks", static_cast<double>(*kernels.cga_size), ""}},
                 {change({fmt::format("comm_overlap.cga_size={}", kMostAdvisedCga)})});
  if (!kernels.num_sm) {
    const bool rows =
        overlap.tp_comm_overlap_cfg.is_name() || !overlap.tp_comm_overlap_cfg.value.entries.empty();
    return not_applicable(rows ? "comm_overlap.tp_comm_overlap_cfg has the multiprocessors of rows"
                               : "NCCL chooses its multiprocessors (comm_overlap.num_sm is null)");
  }
  if (!f.times) return unknown(kNoTimes);
  const int number = *kernels.num_sm;
  const double exposed = f.times->share(f.times->exposed_of("tp"));
  const std::vector<Quantity> values{{"multiprocessors", static_cast<double>(number), ""},
                                     {"exposed", exposed, "of the step"}};
  if (exposed > limits[Limit::exposed_min])
    return fires(Level::hint,
                 fmt::format("exchanges of tensor ranks have {} (num_sm), and are "
                             "exposed {:.1f} %: measure with more; a plan does not know how much "
                             "faster they are",
                             counted(number, "multiprocessor"), 100 * exposed),
                 values, {with_num_sm(std::min(2 * number, kMostSm))});
  if (number == 1) return not_applicable("one multiprocessor hides all exchanges");
  return if_gain(Level::hint,
                 fmt::format("exchanges of tensor ranks have {} multiprocessors (num_sm) and are "
                             "hidden: with fewer, products are faster",
                             number),
                 values, {with_num_sm(number / 2)});
}

Finding tp_overlap_splits(const Figures& f, const Thresholds&) {
  if (f.tp == 1 || !overlaps_tensors(f))
    return not_applicable("communication of tensor ranks is not overlapped");
  if (f.config.tensor_overlap.method != OverlapMethod::pipeline)
    return not_applicable(
        "products are cut over ranks (ring_exchange); comm_overlap.method=pipeline cuts features");
  std::vector<Advice> advice;
  const int splits = f.config.tensor_overlap.num_splits.value_or(4);
  for (const int other : {1, 2, 4, 8})
    if (other != splits)
      advice.push_back(change({fmt::format("comm_overlap.num_splits={}", other)}));
  return if_gain(
      Level::hint,
      fmt::format("pipelined products have {} splits; another number may be faster", splits),
      {{"splits", static_cast<double>(splits), ""}}, std::move(advice));
}

Finding tp_overlap_static(const Figures& f, const Thresholds&) {
  if (f.tp == 1 || !overlaps_tensors(f))
    return not_applicable("communication of tensor ranks is not overlapped");
  return not_applicable(
      "shapes that change are a configuration error (src/run/rules/gemm_overlap.cpp)");
}

Finding tp_overlap_launch_order(const Figures& f, const Thresholds&) {
  if (f.tp == 1 || !overlaps_tensors(f))
    return not_applicable("communication of tensor ranks is not overlapped");
  return unknown(
      "when communication kernels start: measured in a run; this trainer orders them by events");
}

Finding tp_fp8_buf(const Figures& f, const Thresholds&) {
  if (!f.fp8) return not_applicable("products are not in FP8");
  if (f.tp == 1 || !overlaps_tensors(f))
    return not_applicable("communication of tensor ranks is not overlapped");
  if (f.config.tensor_overlap.fp8_buf) return not_applicable("sums travel in FP8");
  return if_gain(
      Level::hint, "sums of tensor ranks travel in 16 bits: FP8 halves them, summed in FP32",
      {{"a step", f.traffic_of("tp").bytes, "bytes"}}, {change({"comm_overlap.fp8_buf=true"})});
}

Finding pp_p2p_exposed(const Figures& f, const Thresholds& limits) {
  if (f.pp == 1) return not_applicable("pp = 1");
  if (!f.times) return unknown(kNoTimes);
  const double exposed = f.times->share(f.times->exposed_of("pp"));
  const PipelineConfig& p = f.config.pipeline;
  const bool overlap = p.overlap_p2p_comm.value_or(false);
  if (exposed <= limits[Limit::exposed_min] && !(overlap && exposed > 0.01))
    return not_applicable(
        fmt::format("exposed messages between stages are {:.1f} %", 100 * exposed));
  if (overlap && p.overlap_p2p_comm_warmup_flush)
    return fires(
        Level::warn,
        fmt::format("messages between stages are exposed {:.1f} % though they overlap everywhere",
                    100 * exposed),
        {{"exposed", exposed, "of the step"}});
  std::vector<std::string> fields{"comm_overlap.overlap_p2p_comm=true",
                                  "model.batch_p2p_comm=false"};
  if (overlap) fields = {"model.overlap_p2p_comm_warmup_flush=true"};
  return if_gain(
      overlap ? Level::hint : Level::warn,
      fmt::format("messages between stages are exposed {:.1f} % of the step, {} a rank",
                  100 * exposed, bytes(f.traffic_of("pp").bytes)),
      {{"exposed", exposed, "of the step"}, {"a step", f.traffic_of("pp").bytes, "bytes"}},
      {change(std::move(fields))});
}

/// Tokens of a chunk that hide the ring's next keys and values under attention.
double chunk_that_hides(const Figures& f) {
  const double heads = static_cast<double>(f.model.kv_heads) / static_cast<double>(f.model.heads);
  const Machine& m = *f.machine;
  const double rate = f.crosses("cp") ? m.network : m.link;
  return 2 * heads * m.attention_flops / rate;
}

Finding cp_p2p_covered(const Figures& f, const Thresholds&) {
  if (f.cp == 1) return not_applicable(kOneContextRank);
  if (!f.machine) return unknown("the rates of attention and links: give a cluster");
  const double chunk = static_cast<double>(f.length) / f.cp, least = chunk_that_hides(f);
  if (chunk < least)
    return not_applicable(
        fmt::format("chunks of {:.0f} tokens are below {:.0f} (cp-chunk-short)", chunk, least));
  return fires(
      Level::note,
      fmt::format("chunks of {:.0f} tokens hide the ring's keys and values (from {:.0f} on)", chunk,
                  least),
      {{"chunk", chunk, "tokens"}, {"hides from", least, "tokens"}});
}

/// Inner sizes of a2a+p2p that divide the key-value heads of a rank.
std::vector<int> inner_sizes(const Figures& f) {
  std::vector<int> sizes;
  const int64_t heads = f.model.kv_heads / f.tp;
  for (int inner = 2; inner <= f.cp; inner *= 2)
    if (f.cp % inner == 0 && heads > 0 && heads % inner == 0 &&
        inner * f.tp <= f.machine->cluster.domain)
      sizes.push_back(inner);
  return sizes;
}

Finding cp_chunk_short(const Figures& f, const Thresholds&) {
  if (f.cp == 1) return not_applicable(kOneContextRank);
  if (context_type(f) != ContextExchange::p2p)
    return not_applicable("keys and values do not travel in a ring alone");
  if (!f.machine) return unknown("the rates of attention and links: give a cluster");
  const double chunk = static_cast<double>(f.length) / f.cp, least = chunk_that_hides(f);
  if (chunk >= least)
    return not_applicable(fmt::format("chunks of {:.0f} tokens are at least {:.0f}", chunk, least));
  std::vector<Advice> advice;
  for (const int inner : inner_sizes(f)) {
    if (inner == f.cp)
      advice.push_back(change({"model.cp_comm_type=a2a"}));
    else
      advice.push_back(change(
          {"model.cp_comm_type=a2a+p2p",
           fmt::format("model.hierarchical_context_parallel_sizes=[{},{}]", inner, f.cp / inner)}));
  }
  return if_gain(
      Level::hint,
      fmt::format("chunks of {:.0f} tokens are too short for the ring to hide: {:.0f} would", chunk,
                  least),
      {{"chunk", chunk, "tokens"}, {"hides from", least, "tokens"}}, std::move(advice));
}

Finding cp_allgather_gqa(const Figures& f, const Thresholds& limits) {
  if (f.cp == 1) return not_applicable(kOneContextRank);
  if (context_type(f) == ContextExchange::all_gather)
    return not_applicable("keys and values are gathered");
  if (!f.times) return unknown(kNoTimes);
  const double moved =
      (f.cp - 1) * 4 * f.tokens() * static_cast<double>(f.model.kv_heads * f.model.head_dim) / f.tp;
  const double seconds = moved / (f.machine->product_flops / group_ratio(f, "cp"));
  const double layer =
      f.times->compute / (f.layers_of_a_stage() * static_cast<double>(f.micro_batches));
  if (seconds >= limits[Limit::gather_small] * layer)
    return not_applicable(fmt::format("a gather of keys and values takes {:.1f} % of a layer",
                                      100 * seconds / layer));
  return if_gain(
      Level::hint,
      fmt::format("keys and values of all chunks are gathered in {:.1f} % of a layer ({})",
                  100 * seconds / layer, bytes(moved)),
      {{"gather", seconds / layer, "of a layer"}, {"moved", moved, "bytes"}},
      {change({"model.cp_comm_type=all_gather"})});
}

Finding cp_a2a_heads(const Figures& f, const Thresholds&) {
  if (f.cp == 1) return not_applicable(kOneContextRank);
  return not_applicable(fmt::format(
      "heads that a2a does not divide are a configuration error "
      "(src/run/rules/context_parallel.cpp); key-value heads bind first: cp at most {} at tp {}",
      std::max<int64_t>(1, f.model.kv_heads / f.tp), f.tp));
}

Finding cp_per_layer(const Figures& f, const Thresholds&) {
  if (f.cp == 1) return not_applicable(kOneContextRank);
  const auto& windows = f.model.windows;
  const bool differ =
      std::any_of(windows.begin(), windows.end(), [&](int64_t w) { return w != windows.front(); });
  if (!differ) return not_applicable("all layers have the same attention");
  std::string list = "model.cp_comm_type=[";
  for (size_t i = 0; i < windows.size(); ++i)
    list += fmt::format("{}{}", i > 0 ? "," : "", windows[i] > 0 ? "all_gather" : "p2p");
  return if_gain(Level::hint,
                 "some layers have a window: each kind may exchange keys and values its own way",
                 {{"layers with a window",
                   static_cast<double>(std::count_if(windows.begin(), windows.end(),
                                                     [](int64_t w) { return w > 0; })),
                   ""}},
                 {change({list + "]"})});
}

}  // namespace

RuleGroup model_overlap_rules() {
  return {
      "Communication of tensor, pipeline and context ranks",
      {{"tp-overlap-off", kPlan,
        "warn: t > 1 with sequence parallelism, not overlapped, exposed > exposed_min",
        "Overlap it with the products that it feeds.",
        "8B, tp 8, 64 H100, another framework: +9.7 %, +5.6 %", "guides, tensor parallel overlap",
        tp_overlap_off},
       {"tp-overlap-sms", kPlan,
        "hint: num_sm is given, and communication is exposed > exposed_min, or a smaller num_sm is "
        "faster; warn: cga_size > 2",
        "Give it more or fewer multiprocessors; clusters of 1 or 2 blocks.", "",
        "guides, tensor parallel overlap", tp_overlap_sms},
       {"tp-overlap-splits", kPlan,
        "hint: pipelined products, and another number of splits is faster",
        "4 is usually best; the guides' split size is the number of splits.", "",
        "guides, tensor parallel overlap", tp_overlap_splits},
       {"tp-overlap-static", kPlan, "error: overlap with shapes that change",
        "Pad, or switch it off.", "", "guides, tensor parallel overlap", tp_overlap_static,
        "shapes that change are a configuration error with overlap"},
       {"tp-overlap-launch-order", kRun, "warn: a communication kernel starts after its product",
        "Order launches before Blackwell; this trainer uses events.", "",
        "guides, tensor parallel overlap", tp_overlap_launch_order,
        "launches are ordered by events; when kernels start is measured on a GPU"},
       {"tp-fp8-buf", kPlan, "hint: FP8, overlapped sums in 16 bits", "Let sums travel in FP8.", "",
        "guides, data types", tp_fp8_buf},
       {"pp-p2p-exposed", kPlan | kRun,
        "warn: exposed messages > exposed_min; hint: > 1 % with overlap on",
        "Overlap sends and receives, in warm-up and drain too. On by default in Megatron only with "
        "virtual stages.",
        "", "guides, communication overlap", pp_p2p_exposed},
       {"cp-p2p-covered", kPlan, "note: s/c ≥ 2(g/a)·R of attention",
        "A ring hides keys and values.", "", "guides, long sequences", cp_p2p_covered},
       {"cp-chunk-short", kPlan,
        "hint: ring with s/c below that (wrong sizes are configuration errors)",
        "All-to-all inside the domain, rings between.", "", "guides, long sequences",
        cp_chunk_short},
       {"cp-allgather-gqa", kPlan, "hint: gather of keys and values < gather_small of a layer",
        "With few key-value heads a gather is as good.", "", "guides, long sequences",
        cp_allgather_gqa},
       {"cp-a2a-heads", kPlan, "error: a2a and c does not divide the heads",
        "Key-value heads bind first, which caps the length.", "", "guides, long sequences",
        cp_a2a_heads, "heads that a2a does not divide are a configuration error"},
       {"cp-per-layer", kPlan, "hint: layers have different windows",
        "Choose the kind of exchange for each layer.", "", "guides, long sequences",
        cp_per_layer}}};
}

}  // namespace viaduct::rules
