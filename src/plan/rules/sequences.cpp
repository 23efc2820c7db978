// Long rows and packed ones.

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "plan/rules/rule.h"
#include "run/packing_settings.h"

namespace viaduct::rules {
namespace {

Finding long_seq_sweep(const Figures& f, const Thresholds& limits) {
  if (static_cast<double>(f.length) < limits[Limit::length_long])
    return not_applicable(fmt::format("rows have {} tokens", f.length));
  if (f.tp * f.cp == 1) return not_applicable("tp · cp = 1");
  std::vector<Advice> advice;
  const int product = f.tp * f.cp;
  for (int tp = 1; tp <= product; tp *= 2) {
    if (product % tp != 0 || tp == f.tp || f.model.heads % tp != 0) continue;
    if (f.machine && tp > f.machine->cluster.domain) continue;
    advice.push_back(with_sizes(f, tp, product / tp, f.pp));
  }
  return if_gain(Level::hint,
                 fmt::format("rows of {} tokens favour neither tp nor cp: tp {} · cp {} is one of "
                             "the grid with the same product",
                             f.length, f.tp, f.cp),
                 {{"length", static_cast<double>(f.length), "tokens"}}, std::move(advice));
}

constexpr const char* kNoLengths =
    "the lengths of conversations: they are in the data sets, which cannot be read here";
// Packs that are less full are worth a longer row.
constexpr double kFullPacks = 0.95;
// Of fewer packs the emptiness is that of the last one.
constexpr size_t kFewPacks = 8;

Finding pack_off(const Figures& f, const Thresholds& limits) {
  const PackingConfig& packing = f.config.dataset.packing;
  if (!packing.conversations && !packing.packed_sequence_size)
    return not_applicable("rows are full: no data set has a mask, as those of conversations have");
  if (!f.conversations) return unknown(kNoLengths);
  const ConversationFigures& c = *f.conversations;
  const double real = 1 - c.padding, packed = 1 - c.padding_packed;
  const std::vector<Quantity> values{{"real tokens", real, "of the tokens"},
                                     {"real tokens if packed", packed, "of the tokens"},
                                     {"tokens of a conversation", c.mean_tokens, "tokens"}};
  if (packing.packed_sequence_size) {
    if (real >= kFullPacks)
      return not_applicable(fmt::format("packs are {:.1f} % full", 100 * real));
    if (const size_t rows = c.row_squares.size(); rows > 0 && rows < kFewPacks)
      return not_applicable(
          fmt::format("all conversations fill {}: the last one's rest is what is empty",
                      counted(static_cast<int64_t>(rows), "pack")));
    return fires(Level::hint,
                 fmt::format("packs of {} tokens are {:.1f} % full; longer ones, and "
                             "first_fit_decreasing, leave less padding",
                             f.length, 100 * real),
                 values,
                 {{{fmt::format("dataset.packed_sequence_size={}", 2 * f.length),
                    "dataset.packing_algorithm=first_fit_decreasing"}}});
  }
  if (c.padding <= limits[Limit::pad_high])
    return not_applicable(fmt::format("{:.1f} % of the tokens are padding", 100 * c.padding));
  return fires(
      Level::warn,
      fmt::format("{:.1f} % of the tokens are padding: conversations have {:.0f} tokens on average "
                  "and rows {}; packed rows train up to {:.1f} times as many in the same time",
                  100 * c.padding, c.mean_tokens, f.length, packed / real),
      values, {{{fmt::format("dataset.packed_sequence_size={}", f.length)}}});
}

Finding pack_legal(const Figures& f, const Thresholds&) {
  const PackingConfig& packing = f.config.dataset.packing;
  if (!packing.packed_sequence_size) return not_applicable("rows are not packed");
  const int64_t multiple = packing.pad_seq_to_mult, needed = layout_multiple(f.config);
  if (multiple > 1 && multiple % needed != 0) {
    return fires(Level::error,
                 fmt::format("conversations are padded to a multiple of {}, and this layout cuts "
                             "them by {} (2 · cp, and cp · tp with sequence parallel)",
                             multiple, needed),
                 {}, {{{fmt::format("dataset.pad_seq_to_mult={}", needed)}}});
  }
  if (f.micro_batch == 1)
    return not_applicable("one packed row a micro-batch, and padding that the layout can cut");
  return fires(Level::note,
               fmt::format("micro-batches of {} packed rows are legal here, and Megatron-Bridge "
                           "demands one: a longer pack instead fills rows better",
                           f.micro_batch),
               {},
               {{{"train.micro_batch_size=1",
                  fmt::format("dataset.packed_sequence_size={}", f.micro_batch * f.length)}}});
}

/// The mean over steps of the busiest data rank's sum of squares over the mean of all data ranks;
/// none with fewer rows than a step has.
std::optional<double> imbalance(const Figures& f) {
  const std::vector<double>& squares = f.conversations->row_squares;
  const auto step = static_cast<size_t>(f.global_batch),
             of_turn = static_cast<size_t>(f.micro_batch), ranks = static_cast<size_t>(f.dp);
  double sum = 0;
  size_t steps = 0;
  for (size_t begin = 0; begin + step <= squares.size(); begin += step, ++steps) {
    std::vector<double> work(ranks);
    for (size_t row = 0; row < step; ++row) work[row / of_turn % ranks] += squares[begin + row];
    double all = 0;
    for (const double of_rank : work) all += of_rank;
    sum += std::ranges::max(work) * static_cast<double>(ranks) / all;
  }
  if (steps == 0) return std::nullopt;
  return sum / static_cast<double>(steps);
}

Finding pack_straggler(const Figures& f, const Thresholds& limits) {
  if (cause_of_documents(f.config.dataset).empty())
    return not_applicable("attention crosses documents: all rows cost the same");
  if (f.dp == 1) return not_applicable("there is one data rank");
  if (!f.conversations) {
    return unknown("the lengths of documents: they are in the data, and a plan has blank rows");
  }
  const auto ratio = imbalance(f);
  if (!ratio) return unknown("the lengths of a step's conversations: the data have fewer rows");
  const std::vector<Quantity> values{{"attention of the busiest data rank", *ratio, "times"}};
  if (*ratio <= limits[Limit::row_imbalance])
    return not_applicable(
        fmt::format("the busiest data rank has {:.2f} times the mean of attention's work", *ratio));
  return fires(
      Level::hint,
      fmt::format("the busiest data rank has {:.2f} times the mean of attention's work, and "
                  "the others wait for it: sums of squared lengths differ between rows; "
                  "more rows on a rank in each step even them out",
                  *ratio),
      values);
}

}  // namespace

RuleGroup sequence_rules() {
  return {
      "Long rows and packing",
      {{"long-seq-sweep", kPlan, "hint: s ≥ length_long",
        "Try the grid of tp × cp; confirm the best by measurement.",
        "8B, 1,024 B200 at 1M tokens: tp 4 · cp 16", "guides, long sequences", long_seq_sweep},
       {"pack-off", kPlan | kRun,
        "warn: conversations are not packed, padding > pad_high; hint: packs less than 95 % full",
        "Pack conversations into full rows; make packs longer.", "", "guides, packing", pack_off},
       {"pack-legal", kPlan,
        "error: conversations are padded to another multiple than the layout's; note: packed rows "
        "with b > 1, which are legal here and not in Megatron",
        "One row a micro-batch, longer packs.", "", "guides, packing", pack_legal},
       {"pack-straggler", kPlan | kRun,
        "hint: attention work of data ranks differs by more than row_imbalance",
        "Balance rows by the sum of squared lengths.", "", "guides, packing", pack_straggler}}};
}

}  // namespace viaduct::rules
