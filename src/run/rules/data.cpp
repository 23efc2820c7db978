// Rows: what they are depends on the model and on the files.

#include "run/rules/rules.h"

namespace viaduct {
namespace {

std::string no_conversations(const RunConfig& c, const ConfigOutcome&) {
  if (c.dataset.mock) return "dataset.mock = true: there are no conversations";
  return reason_if(!c.dataset.packing.conversations,
                   "no data set has a mask (PREFIX.mask.idx, by viaduct data chat)");
}

void refuse_data(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const auto& row = config.dataset.sequence_length;
  const auto& length = config.model.seq_length;
  if (!row.is_auto() && !length.is_auto() && row.value() != length.value()) {
    problems.add("dataset.sequence_length: {} differs from model.seq_length = {}", row.value(),
                 length.value());
  }
}

}  // namespace

Topic data_topic() {
  std::vector<NoEffectRule> idle{
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
      {{"dataset.packing_algorithm", "dataset.packing_split", "dataset.pad_cu_seqlens",
        "dataset.pad_seq_to_mult"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         if (!c.dataset.packing.packed_sequence_size)
           return std::string("dataset.packed_sequence_size is null: rows are not packed");
         return no_conversations(c, outcome);
       }},
  };
  return {refuse_data, std::move(idle)};
}

}  // namespace viaduct
