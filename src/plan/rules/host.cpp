// The host: launches, graphs, binding.

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

double host_share(const Figures& f) {
  return f.times->share(f.times->host);
}
std::string waits(const Figures& f) {
  return fmt::format("compute waits {:.1f} % of the step for {} launches", 100 * host_share(f),
                     f.launches);
}
std::vector<Quantity> host_values(const Figures& f) {
  return {{"host", host_share(f), "of the step"},
          {"launches", static_cast<double>(f.launches), ""},
          {"mean kernel", f.times->compute / static_cast<double>(std::max<int64_t>(1, f.launches)),
           "s"}};
}
Advice larger_micro_batch(const Figures& f) {
  return change({fmt::format("train.micro_batch_size={}", 2 * f.micro_batch)});
}

Finding host_bound(const Figures& f, const Thresholds& limits) {
  if (!f.times) return unknown(kNoTimes);
  if (host_share(f) <= limits[Limit::host_high]) return not_applicable(waits(f));
  std::vector<Advice> advice{larger_micro_batch(f)};
  if (f.tp > 1) advice.push_back(with_sizes(f, f.tp / 2, f.cp, f.pp));
  if (f.cp > 1) advice.push_back(with_sizes(f, f.tp, f.cp / 2, f.pp));
  return fires(Level::warn, waits(f), host_values(f), std::move(advice));
}

Finding micro_batch_raise(const Figures& f, const Thresholds& limits) {
  const bool even = f.micro_batches % 2 == 0 && (f.pp == 1 || f.micro_batches / 2 >= f.pp);
  if (!f.times) return unknown(kNoTimes);
  const bool host = host_share(f) > limits[Limit::host_high];
  std::vector<Advice> advice;
  if (even) advice.push_back(larger_micro_batch(f));
  if (host && f.tp > 1) advice.push_back(with_sizes(f, f.tp / 2, f.cp, f.pp));
  if (host && f.cp > 1) advice.push_back(with_sizes(f, f.tp, f.cp / 2, f.pp));
  if (advice.empty())
    return not_applicable(fmt::format("{} cannot be paired over {}",
                                      counted(f.micro_batches, "micro-batch", "micro-batches"),
                                      counted(f.pp, "stage")));
  return if_gain(Level::hint,
                 fmt::format("{} of {}: larger ones have larger products and fewer launches",
                             counted(f.micro_batches, "micro-batch", "micro-batches"),
                             counted(f.micro_batch, "row")),
                 {{"micro-batches", static_cast<double>(f.micro_batches), ""},
                  {"host", host_share(f), "of the step"}},
                 std::move(advice));
}

Finding graph_on(const Figures& f, const Thresholds& limits) {
  if (!f.times) return unknown(kNoTimes);
  if (host_share(f) <= limits[Limit::host_high]) return not_applicable(waits(f));
  if (f.config.graph.cuda_graph_impl != GraphCapture::none)
    return not_applicable(waits(f) + ", with " +
                          stated("model.cuda_graph_impl", f.config.graph.cuda_graph_impl));
  return if_gain(
      Level::hint, waits(f), host_values(f),
      {change({"model.cuda_graph_impl=full_iteration"}), change({"model.cuda_graph_impl=local"})});
}

Finding graph_static(const Figures&, const Thresholds&) {
  return not_applicable(
      "a graph is of launches that come again: model.cuda_graph_impl is refused where rows have "
      "documents of their own or a rank's experts get other rows in each step, and a step of other "
      "shapes is captured again");
}

Finding gc_aligned(const Figures&, const Thresholds&) {
  return not_applicable(
      "there is no garbage collector; a given train.manual_gc is noted at the start");
}

Finding cpu_binding(const Figures& f, const Thresholds&) {
  const bool gpus = f.machine ? !f.machine->cluster.gpu.is_cpu : f.config.dist.on_cuda();
  if (!gpus) return not_applicable("ranks have no GPUs");
  const auto& binds = f.config.dist.numactl;
  if (!binds)
    return not_applicable(
        "ranks run on the cores near their GPUs; dist.numactl=true binds their memory as well");
  if (*binds) return not_applicable("dist.numactl = true binds each rank to its memory node");
  return fires(Level::warn,
               "dist.numactl = false: ranks run on any core, and their memory is anywhere", {},
               {change({"dist.numactl=true"})});
}

Finding vboost(const Figures& f, const Thresholds&) {
  if (const auto& position = f.config.dist.vboost)
    return not_applicable(fmt::format("dist.vboost = {} moves the slider", *position));
  return unknown(
      "whether the GPU has the slider, and what it gains: compare runs with and without on the "
      "machine");
}

}  // namespace

RuleGroup host_rules() {
  return {
      "Host",
      {{"host-bound", kPlan, "warn: waiting for launches > host_high",
        "In this order: larger micro-batches, less tp and cp, graphs, binding.", "", "guides, host",
        host_bound},
       {"micro-batch-raise", kPlan,
        "hint: twice the micro-batch is legal and faster; or waiting for launches > host_high",
        "Double the micro-batch, or undo tp and cp that are not needed.",
        "7B, 4 → 8: RTX 5090 +24 % (llmq-readme-35, llmq-readme-36); A100 +8 %, twice the "
        "batch too",
        "guides, host; benchmark page", micro_batch_raise},
       {"graph-on", kPlan, "hint: waiting for launches > host_high, shapes do not change",
        "Capture the step in a CUDA graph, or its layers (model.cuda_graph_impl).",
        "partial → full +26 %; with a new release +17 to +43 %", "guides, host", graph_on},
       {"graph-static", kPlan, "error: a graph with shapes that change",
        "Capture attention and router alone (model.cuda_graph_modules).", "", "guides, host",
        graph_static, "a graph with shapes that change is a configuration error"},
       {"gc-aligned", kPlan, "note: settings of a garbage collector", "C++ has none.", "",
        "guides, host", gc_aligned, "there is no garbage collector"},
       {"cpu-binding", kPlan | kStart, "warn: ranks are not bound to their GPUs' memory nodes",
        "Bind by the machine's topology: local rank/4 and /2 hold for one arrangement only.", "",
        "guides, host", cpu_binding},
       {"vboost", kStart, "note: the slider exists, is 0, and compute > 70 % of the step",
        "Give power to the GPU's core clock (dist.vboost=1); judge by comparing runs.", "",
        "guides, clock", vboost,
        "whether the GPU has the slider is seen on the machine, what it gains by comparing runs"}}};
}

}  // namespace viaduct::rules
