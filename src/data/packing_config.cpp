#include "data/packing_config.h"

#include <limits>

namespace viaduct {

FieldGroup packing_fields(PackingConfig& config) {
  FieldGroup group("dataset", "");
  group.of_values();
  // Conversations say how long the documents of a row are, in virtual time too.
  const auto conversations = [&config] { return config.conversations; };
  group
      .field("packed_sequence_size", config.packed_sequence_size,
             "Conversations (data sets with a mask) are packed into rows of this many tokens when "
             "the run starts; it is model.seq_length then, and a smaller model.seq_length limits "
             "conversations. null: each conversation is a row, with padding.")
      .alias("packed_sequence_specs.packed_sequence_size")
      .alias("dataset.packed_sequence_specs.packed_sequence_size")
      .range(1, std::numeric_limits<int32_t>::max() - 1)
      .in("tokens")
      .on_resume(resume::refused(resume::other_rows))
      .of_values(conversations);
  group
      .field(
          "packing_algorithm", config.packing_algorithm,
          "How conversations are chosen for rows, anew in each epoch. first_fit_decreasing: the "
          "longest first, each into the first row that has room; first_fit_shuffle: the same in "
          "random order; sequential: in random order, and a row ends where the next one does not "
          "fit.")
      .one_of({PackingAlgorithm::first_fit_decreasing, PackingAlgorithm::first_fit_shuffle,
               PackingAlgorithm::sequential})
      .on_resume(resume::said(resume::other_rows))
      .of_values(conversations);
  group
      .field("packing_split", config.packing_split,
             "Conversations may be cut: sequential packing cuts at the end of each row, the others "
             "only what is longer than a row. The parts do not see each other. false, or rows that "
             "are "
             "not packed: a conversation longer than a row is an error.")
      .on_resume(resume::said(resume::other_rows))
      .of_values(conversations);
  group
      .field("pad_cu_seqlens", config.pad_cu_seqlens,
             "All rows of conversations have the same number of documents, some of them empty.")
      .on_resume(resume::free);  // empty documents
  group
      .field("pad_seq_to_mult", config.pad_seq_to_mult,
             "Conversations are padded to a multiple of this many tokens when rows are packed. 1: "
             "what the layout requires is padded when a batch is cut, after packing.")
      .constraint(
          "above 1 a multiple of lcm of 2 · cp (cp > 1) and cp · tp (sequence_parallel), and a "
          "divisor of the row")
      .range(1, 1 << 20)
      .in("tokens")
      .on_resume(resume::said(resume::other_rows))
      .of_values(conversations);
  group
      .field("answer_only_loss", config.answer_only_loss,
             "Of data sets with a mask only the tokens that it has are scored (the answers of "
             "conversations); false: every token is.")
      .on_resume(resume::said(resume::other_targets));
  group
      .field("enable_offline_packing", config.enable_offline_packing,
             "Megatron-Bridge's switch for offline_packing_specs; rows are packed when the run "
             "starts, from the same data set. null: they are if a size is given.")
      .on_resume(resume::free)  // its content is in the fields above
      .of_values(conversations);
  group
      .field("offline_packing_specs", config.offline_packing_specs,
             "Megatron-Bridge's form of packed_sequence_size, packing_algorithm, pad_cu_seqlens "
             "and pad_seq_to_mult, as a map. Paths of packed files are refused: they are Parquet "
             "or pickled objects, and `viaduct data chat` makes a data set for any row length.")
      .on_resume(resume::free)  // its content is in the fields above
      .of_values(conversations);
  group
      .field("packed_sequence_specs", config.packed_sequence_specs,
             "Older name of offline_packing_specs, without a switch.")
      .on_resume(resume::free)  // its content is in the fields above
      .of_values(conversations);
  return group;
}

PackingSettings packing_settings(const PackingConfig& config, int64_t row_tokens) {
  if (!config.packed_sequence_size) return {.row_tokens = row_tokens};
  return {config.packing_algorithm, row_tokens, config.pad_seq_to_mult, config.packing_split};
}

}  // namespace viaduct
