#include "plan/contradictions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <set>

#include "base/units.h"

namespace viaduct {
namespace {

struct Size {
  std::string text;  // as the user gives it
  /// Leaves the size to the search.
  void (*free)(SpaceLimits&);
  /// The given value, and that of a layout; null where the search has no other values.
  int64_t given = 0;
  int64_t (*of)(const Layout&) = nullptr;
};

/// What the user gave, in the order in which it is blamed last.
std::vector<Size> given_sizes(const SpaceLimits& limits) {
  std::vector<Size> sizes;
  const auto add = [&](const auto& given, std::string_view field, void (*free)(SpaceLimits&),
                       int64_t (*of)(const Layout&)) {
    if (given) sizes.push_back({fmt::format("{}={}", field, *given), free, *given, of});
  };
  add(
      limits.tp, "model.tensor_model_parallel_size", [](SpaceLimits& l) { l.tp.reset(); },
      [](const Layout& l) -> int64_t { return l.tp; });
  add(
      limits.cp, "model.context_parallel_size", [](SpaceLimits& l) { l.cp.reset(); },
      [](const Layout& l) -> int64_t { return l.cp; });
  add(
      limits.pp, "model.pipeline_model_parallel_size", [](SpaceLimits& l) { l.pp.reset(); },
      [](const Layout& l) -> int64_t { return l.pp; });
  add(
      limits.vpp, "model.virtual_pipeline_model_parallel_size",
      [](SpaceLimits& l) { l.vpp.reset(); }, [](const Layout& l) -> int64_t { return l.vpp; });
  add(
      limits.ep, "model.expert_model_parallel_size", [](SpaceLimits& l) { l.ep.reset(); },
      [](const Layout& l) -> int64_t { return l.ep; });
  add(
      limits.etp, "model.expert_tensor_parallel_size", [](SpaceLimits& l) { l.etp.reset(); },
      [](const Layout& l) -> int64_t { return l.etp; });
  add(
      limits.encoder_stages, "model.encoder_pipeline_model_parallel_size",
      [](SpaceLimits& l) { l.encoder_stages.reset(); },
      [](const Layout& l) -> int64_t { return l.encoder_stages; });
  add(
      limits.encoder_tp, "model.encoder_tensor_model_parallel_size",
      [](SpaceLimits& l) { l.encoder_tp.reset(); },
      [](const Layout& l) -> int64_t { return l.encoder_tp; });
  add(
      limits.micro_batch, "train.micro_batch_size", [](SpaceLimits& l) { l.micro_batch.reset(); },
      [](const Layout& l) -> int64_t { return l.micro_batch; });
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

/// Sizes that exclude each other.
std::vector<Size> contradicting(const SpaceLimits& limits) {
  SpaceLimits rest = limits;
  std::vector<Size> found;
  // A size without which there is still no layout is not needed for the contradiction.
  for (const Size& size : given_sizes(limits)) {
    SpaceLimits without = rest;
    size.free(without);
    if (enumerate_layouts(without).empty()) {
      rest = without;
    } else {
      found.push_back(size);
    }
  }
  return found;
}

/// The nearest values with which there are layouts.
std::string nearest_text(SpaceLimits limits, const Size& size) {
  if (size.of == nullptr) return "choose another";
  size.free(limits);
  std::set<int64_t> values;
  for (const Layout& layout : enumerate_layouts(limits)) values.insert(size.of(layout));
  std::vector<int64_t> nearest;
  const auto above = values.upper_bound(size.given);
  if (above != values.begin()) nearest.push_back(*std::prev(above));
  if (above != values.end()) nearest.push_back(*above);
  return fmt::format("nearest: {}", fmt::join(nearest, " or "));
}

}  // namespace

std::vector<std::string> contradicting_sizes(const SpaceLimits& limits) {
  std::vector<std::string> texts;
  for (const Size& size : contradicting(limits)) texts.push_back(size.text);
  return texts;
}

std::string no_layout_text(const SpaceLimits& limits) {
  const std::string text =
      fmt::format("viaduct plan: no layout divides {}, {} and {}", counted(limits.ranks, "rank"),
                  counted(limits.layers, "layer"), counted(limits.global_batch, "row"));
  const std::vector<Size> sizes = contradicting(limits);
  if (sizes.empty()) return text + "; choose ranks and a batch with more divisors";
  if (sizes.size() == 1)
    return fmt::format("{}: {} does not go with this model; {}", text, sizes.front().text,
                       nearest_text(limits, sizes.front()));
  return fmt::format("{}: {} exclude each other for this model; change one of them", text,
                     fmt::join(contradicting_sizes(limits), ", "));
}

}  // namespace viaduct
