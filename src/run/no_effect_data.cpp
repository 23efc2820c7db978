// Fields of the data that have no effect: what rows are depends on the model and on the files.

#include "data/split.h"
#include "run/no_effect_rules.h"

namespace viaduct {
namespace {

std::string no_conversations(const RunConfig& c, const ConfigOutcome&) {
  if (c.dataset.mock) return "dataset.mock = true: there are no conversations";
  return reason_if(!c.dataset.packing.conversations,
                   "no data set has a mask (PREFIX.mask.idx, by viaduct data chat)");
}

/// Data of which validation gets none.
std::string no_validation_data(const RunConfig& c, const ConfigOutcome&) {
  const DatasetConfig& data = c.dataset;
  if (data.mock) return "";
  if (data.blend_per_split) {
    const auto valid = static_cast<size_t>(Split::valid);
    return reason_if(data.blend_per_split->size() == kSplitCount && !(*data.blend_per_split)[valid],
                     "dataset.blend_per_split has no data sets for validation");
  }
  return reason_if(data.blend && !parse_split(data.split)[static_cast<size_t>(Split::valid)],
                   "dataset.split = " + data.split + " leaves validation no data");
}

}  // namespace

const std::vector<NoEffectRule>& data_without_effect() {
  static const std::vector<NoEffectRule> kRules{
      {{"dataset.masking_probability", "dataset.mean_noise_span_length",
        "dataset.short_sequence_probability"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const PackingConfig& packing = c.dataset.packing;
         if (c.model.encoder.encoder_num_layers.value() == 0)
           return std::string("model.encoder_num_layers = 0");
         if (c.dataset.mock) return std::string("dataset.mock = true: there are no texts");
         return reason_if(packing.conversations && !packing.plain,
                          "all data sets have a mask: rows are pairs");
       }},
      {{"dataset.reset_attention_mask", "dataset.reset_position_ids", "dataset.eod_mask_loss"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const PackingConfig& packing = c.dataset.packing;
         if (c.model.encoder.encoder_num_layers.value() > 0)
           return std::string("model.encoder_num_layers is not 0: rows are pairs");
         return reason_if(packing.conversations && !packing.plain,
                          "conversations are documents already, and the mask says what is scored");
       }},
      {{"dataset.packed_sequence_size", "dataset.answer_only_loss"}, no_conversations},
      {{"validation.eval_iters", "validation.full_validation"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         return c.validation.evaluates() ? no_validation_data(c, outcome) : std::string();
       }},
      {{"validation.eval_interval"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         const ValidationConfig& v = c.validation;
         const bool besides = v.tasks || v.sample_prompts || !v.evaluates();
         return besides ? std::string() : no_validation_data(c, outcome);
       }},
      {{"dataset.packing_algorithm", "dataset.packing_split", "dataset.pad_cu_seqlens",
        "dataset.pad_seq_to_mult"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         if (!c.dataset.packing.packed_sequence_size)
           return std::string("dataset.packed_sequence_size is null: rows are not packed");
         return no_conversations(c, outcome);
       }},
  };
  return kRules;
}

}  // namespace viaduct
