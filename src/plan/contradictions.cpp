#include "plan/contradictions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"
namespace viaduct {
namespace {

struct Size {
  std::string text;  // as the user gives it
  /// Leaves the size to the search.
  void (*free)(SpaceLimits&);
};

/// What the user gave, in the order in which it is blamed last.
std::vector<Size> given_sizes(const SpaceLimits& limits) {
  std::vector<Size> sizes;
  const auto add = [&](const auto& given, std::string_view field, void (*free)(SpaceLimits&)) {
    if (given) sizes.push_back({fmt::format("{}={}", field, *given), free});
  };
  add(limits.tp, "model.tensor_model_parallel_size", [](SpaceLimits& l) { l.tp.reset(); });
  add(limits.cp, "model.context_parallel_size", [](SpaceLimits& l) { l.cp.reset(); });
  add(limits.pp, "model.pipeline_model_parallel_size", [](SpaceLimits& l) { l.pp.reset(); });
  add(limits.vpp, "model.virtual_pipeline_model_parallel_size",
      [](SpaceLimits& l) { l.vpp.reset(); });
  add(limits.ep, "model.expert_model_parallel_size", [](SpaceLimits& l) { l.ep.reset(); });
  add(limits.etp, "model.expert_tensor_parallel_size", [](SpaceLimits& l) { l.etp.reset(); });
  add(limits.encoder_stages, "model.encoder_pipeline_model_parallel_size",
      [](SpaceLimits& l) { l.encoder_stages.reset(); });
  add(limits.encoder_tp, "model.encoder_tensor_model_parallel_size",
      [](SpaceLimits& l) { l.encoder_tp.reset(); });
  add(limits.micro_batch, "train.micro_batch_size", [](SpaceLimits& l) { l.micro_batch.reset(); });
  // A batch that all ranks and micro-batches divide; the fewest ranks that have the other sizes.
  sizes.push_back({fmt::format("--global-batch {}", limits.global_batch),
                   [](SpaceLimits& l) { l.global_batch *= l.ranks * l.micro_batch.value_or(1); }});
  sizes.push_back({fmt::format("--ranks {}", limits.ranks), [](SpaceLimits& l) {
                     const int tp = l.tp.value_or(1), own = l.encoder_tp.value_or(0);
                     const int64_t encoder =
                         int64_t{1} * l.encoder_stages.value_or(0) * (own > 0 ? own : tp);
                     l.ranks = encoder + int64_t{1} * tp * l.pp.value_or(1);
                     for (const auto& given : {l.cp, l.ep, l.etp}) l.ranks *= given.value_or(1);
                     l.global_batch *= l.ranks;
                   }});
  return sizes;
}

}  // namespace

std::vector<std::string> contradicting_sizes(const SpaceLimits& limits) {
  SpaceLimits rest = limits;
  std::vector<std::string> found;
  // A size without which there is still no layout is not needed for the contradiction.
  for (const Size& size : given_sizes(limits)) {
    SpaceLimits without = rest;
    size.free(without);
    if (enumerate_layouts(without).empty()) {
      rest = without;
    } else {
      found.push_back(size.text);
    }
  }
  return found;
}

std::string no_layout_text(const SpaceLimits& limits) {
  const std::string text =
      fmt::format("viaduct plan: no layout divides {}, {} and {}", counted(limits.ranks, "rank"),
                  counted(limits.layers, "layer"), counted(limits.global_batch, "row"));
  const std::vector<std::string> sizes = contradicting_sizes(limits);
  if (sizes.empty()) return text + "; choose ranks and a batch with more divisors";
  if (sizes.size() == 1)
    return fmt::format("{}: {} does not go with this model; choose another", text, sizes.front());
  return fmt::format("{}: {} exclude each other for this model; change one of them", text,
                     fmt::join(sizes, ", "));
}

}  // namespace viaduct
