// Long rows and packed ones.

#include <fmt/format.h>

#include "plan/rules/rule.h"

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

bool fine_tunes(const Figures& f) {
  return f.config.checkpoint.pretrained_checkpoint.has_value();
}

Finding pack_off(const Figures& f, const Thresholds&) {
  if (!fine_tunes(f)) return not_applicable("rows of pretraining are full");
  return unknown("the share of padding: data of fine-tuning and its packing are not implemented");
}

Finding pack_legal(const Figures&, const Thresholds&) {
  return not_applicable("packed fine-tuning data is not implemented, and its settings are refused");
}

Finding pack_straggler(const Figures& f, const Thresholds&) {
  if (!f.config.dataset.reset_attention_mask)
    return not_applicable("attention crosses documents: all rows cost the same");
  if (f.dp == 1) return not_applicable("there is one data rank");
  return unknown("the lengths of documents: they are in the data, and a plan has blank rows");
}

}  // namespace

RuleGroup sequence_rules() {
  return {
      "Long rows and packing",
      {{"long-seq-sweep", kPlan, "hint: s ≥ length_long",
        "Try the grid of tp × cp; confirm the best by measurement.",
        "8B, 1,024 B200 at 1M tokens: tp 4 · cp 16", "guides, long sequences", long_seq_sweep},
       {"pack-off", kPlan | kRun, "warn: fine-tuning without packing, padding > pad_high",
        "Pack documents into full rows.", "", "guides, packing", pack_off},
       {"pack-legal", kPlan, "error: packed rows with a micro-batch above 1, or another padding",
        "One row a micro-batch, longer packs.", "", "guides, packing", pack_legal},
       {"pack-straggler", kPlan | kRun,
        "hint: attention work of data ranks differs by more than row_imbalance",
        "Balance rows by the sum of squared lengths.", "", "guides, packing", pack_straggler}}};
}

}  // namespace viaduct::rules
