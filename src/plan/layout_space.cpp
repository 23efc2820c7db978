#include "plan/layout_space.h"

#include <algorithm>
#include <utility>

#include "plan/uneven_stages.h"

namespace viaduct {
namespace {

/// The divisors of `number` up to `most`, or the one value that is fixed if it divides.
std::vector<int64_t> divisors(int64_t number, int64_t most, std::optional<int64_t> fixed) {
  std::vector<int64_t> found;
  if (fixed) {
    if (*fixed >= 1 && number % *fixed == 0) found.push_back(*fixed);
    return found;
  }
  for (int64_t d = 1; d <= number && d <= most; ++d)
    if (number % d == 0) found.push_back(d);
  return found;
}

/// The values up to `most`, or the one that is fixed if it is one of them.
std::vector<int64_t> numbers_up_to(int64_t most, std::optional<int64_t> fixed) {
  std::vector<int64_t> found;
  for (int64_t number = fixed.value_or(1); number <= fixed.value_or(most); ++number)
    if (number >= 1 && number <= most) found.push_back(number);
  return found;
}

std::vector<int64_t> tensor_sizes(const SpaceLimits& limits) {
  if (limits.tp) return numbers_up_to(limits.ranks, *limits.tp);
  std::vector<int64_t> sizes;
  for (const int64_t tp : divisors(limits.domain, limits.ranks, {})) {
    // A group that does not divide the domain would lie in two of them.
    if (limits.heads % tp == 0 && limits.feed_forward % tp == 0) sizes.push_back(tp);
  }
  return sizes;
}

/// Of at most `ranks` context ranks.
std::vector<int64_t> context_sizes(const SpaceLimits& limits, int64_t ranks) {
  if (limits.cp) return numbers_up_to(ranks, *limits.cp);
  std::vector<int64_t> sizes;
  const int64_t most = std::min(ranks, std::max<int64_t>(1, limits.length / kLeastContextTokens));
  for (int64_t cp = 1; cp <= most; ++cp)
    if (cp == 1 || limits.length % (2 * cp) == 0) sizes.push_back(cp);
  return sizes;
}

/// Stages and tensor ranks of the encoder with `tp` of the decoder.
std::vector<std::pair<int64_t, int64_t>> encoder_sizes(const SpaceLimits& limits, int64_t tp) {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  if (limits.encoder_stages.value_or(0) == 0 && limits.encoder_tp.value_or(0) == 0)
    sizes.emplace_back(0, 0);
  if (limits.encoder_layers == 0 || limits.encoder_stages == 0) return sizes;
  std::vector<int64_t> widths;
  if (limits.encoder_tp.value_or(0) > 0) {
    widths.push_back(*limits.encoder_tp);
  } else if (limits.encoder_tp || limits.encoder_width == 0) {
    widths.push_back(tp);
  } else {
    for (const int64_t own : divisors(limits.domain, limits.ranks, {})) {
      if (limits.encoder_width % own == 0 && (own % tp == 0 || tp % own == 0))
        widths.push_back(own);
    }
  }
  for (const int64_t stages : divisors(limits.encoder_layers, limits.ranks, limits.encoder_stages))
    for (const int64_t own : widths) sizes.emplace_back(stages, own);
  return sizes;
}

/// Whether `pp` stages differ.
bool are_uneven(const SpaceLimits& limits, int64_t pp) {
  const int64_t cut = limits.layers + limits.account_for_embedding + limits.account_for_loss;
  return !limits.given_stages && pp > 1 && (cut % pp != 0 || cut < pp);
}

/// Chunks of each of `pp` uneven stages.
std::vector<int64_t> uneven_chunks(const SpaceLimits& limits, int64_t pp) {
  const auto layers = static_cast<int>(limits.layers);
  const auto prediction = static_cast<int>(limits.prediction_layers);
  std::vector<int64_t> sizes;
  for (const int64_t size :
       limits.vpp ? std::vector<int64_t>{*limits.vpp} : std::vector<int64_t>{1, 2, 4, 8})
    if (can_cut_unevenly(layers, prediction, static_cast<int>(pp * size))) sizes.push_back(size);
  return sizes;
}

/// Virtual stages of `pp` stages.
std::vector<int64_t> virtual_sizes(const SpaceLimits& limits, int64_t pp) {
  if (are_uneven(limits, pp)) return uneven_chunks(limits, pp);
  if (limits.vpp) return {*limits.vpp};
  if (pp > 1 && limits.given_chunks % pp == 0 && limits.given_chunks > 0)
    return {limits.given_chunks / pp};
  if (pp == 1 || limits.given_stages) return {1};
  const int64_t cut = limits.layers + limits.account_for_embedding + limits.account_for_loss;
  return divisors(cut / pp, cut / pp, {});
}

bool can_cut(const SpaceLimits& limits, int64_t pp) {
  if (!are_uneven(limits, pp)) return true;
  // The user's own way to count ends is not combined with ours.
  if (limits.account_for_embedding || limits.account_for_loss) return false;
  const bool power_of_two = (pp & (pp - 1)) == 0;
  return power_of_two || (limits.layers + limits.prediction_layers + 2) % pp == 0;
}

std::vector<Sharding> shardings(const SpaceLimits& limits, int64_t shards) {
  if (limits.given_sharding) return {Sharding::given};
  if (shards == 1) return {Sharding::optimizer};  // all are the same
  return {Sharding::none, Sharding::optimizer, Sharding::full};
}

/// Expert parallel sizes and tensor parallel sizes of experts, for a layout's ranks of a stage.
std::vector<std::pair<int, int>> expert_sizes(const SpaceLimits& limits, const Layout& layout) {
  if (limits.experts == 0) return {{0, 0}};
  const int64_t ranks = int64_t{layout.tp} * layout.cp * layout.dp;
  std::vector<std::pair<int, int>> sizes;
  std::vector<int64_t> widths{1, layout.tp};
  if (limits.etp) widths = {*limits.etp};
  if ((layout.tp == 1 || limits.whole_experts) && widths.size() == 2) widths.pop_back();
  for (const int64_t etp : widths) {
    if (limits.expert_feed_forward % etp != 0) continue;
    for (const int64_t ep : divisors(limits.experts, ranks, limits.ep))
      if (ranks % (ep * etp) == 0) sizes.emplace_back(static_cast<int>(ep), static_cast<int>(etp));
  }
  return sizes;
}

/// The layouts of given sizes: experts, sharding, recompute.
void add_kinds(const SpaceLimits& limits, Layout layout, std::vector<Layout>& all) {
  for (const auto& [ep, etp] : expert_sizes(limits, layout)) {
    layout.ep = ep, layout.etp = etp;
    const bool fewer_copies = ep > 1 || (ep == 1 && etp != layout.tp);
    for (const Sharding sharding : shardings(limits, layout.shards())) {
      // The trainer does not support unsharded copies of parameters whose numbers of copies differ.
      if (fewer_copies && sharding == Sharding::none) continue;
      for (const Recompute recompute : recomputes_of(limits)) {
        layout.sharding = sharding, layout.recompute = recompute;
        all.push_back(layout);
      }
    }
  }
}

/// The layouts of given tp, cp, pp and dp.
void add_batches(const SpaceLimits& limits, Layout layout, std::vector<Layout>& all) {
  if (limits.global_batch % layout.dp != 0) return;
  const int64_t rows = limits.global_batch / layout.dp;
  for (const int64_t micro_batch : divisors(rows, kMostMicroBatch, limits.micro_batch)) {
    layout.micro_batch = micro_batch, layout.micro_batches = rows / micro_batch;
    for (const int64_t vpp : virtual_sizes(limits, layout.pp)) {
      // Chunks take turns in groups of pp micro-batches.
      if (vpp > 1 && layout.micro_batches % layout.pp != 0) continue;
      layout.vpp = static_cast<int>(vpp);
      add_kinds(limits, layout, all);
    }
  }
}

/// The layouts of given tp, cp and stages of the encoder.
void add_stages(const SpaceLimits& limits, Layout layout, std::vector<Layout>& all) {
  for (const int64_t pp : numbers_up_to(limits.ranks / layout.tp / layout.cp, limits.pp)) {
    layout.pp = static_cast<int>(pp), layout.dp = 1;
    if (layout.ranks() > limits.ranks || limits.ranks % layout.ranks() != 0) continue;
    if (!can_cut(limits, pp)) continue;
    layout.dp = static_cast<int>(limits.ranks / layout.ranks());
    const bool uneven = are_uneven(limits, pp);
    layout.uneven_layers = uneven ? static_cast<int>(limits.layers) : 0;
    layout.prediction_layers = uneven ? static_cast<int>(limits.prediction_layers) : 0;
    add_batches(limits, layout, all);
  }
}

}  // namespace

std::vector<Recompute> recomputes_of(const SpaceLimits& limits) {
  if (limits.given_recompute) return {Recompute::given};
  return {Recompute::none, Recompute::selective, Recompute::full};
}

std::vector<Layout> enumerate_layouts(const SpaceLimits& limits) {
  std::vector<Layout> all;
  Layout layout;
  layout.given_sequence_parallel = limits.given_sequence_parallel;
  layout.has_encoder = limits.encoder_layers > 0;
  for (const int64_t tp : tensor_sizes(limits)) {
    for (const auto& [encoder_stages, encoder_tp] : encoder_sizes(limits, tp)) {
      layout.tp = static_cast<int>(tp);
      layout.encoder_stages = static_cast<int>(encoder_stages);
      layout.encoder_tp = static_cast<int>(encoder_tp);
      for (const int64_t cp : context_sizes(limits, limits.ranks / tp)) {
        layout.cp = static_cast<int>(cp);
        add_stages(limits, layout, all);
      }
    }
  }
  return all;
}

}  // namespace viaduct
