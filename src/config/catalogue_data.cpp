// Planned knobs of data: packing, fine-tuning sets; and adapters.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kNowhere = KnobReach::nowhere;

constexpr KnobRow kPacking[] = {
    {"packed_sequence_size", "int or null", "null", "",
     "Tokens of a pack; null: rows are not packed.", "",
     "packed_sequence_specs.packed_sequence_size "
     "dataset.packed_sequence_specs.packed_sequence_size"},
    {"packed_sequence_specs", "map or null", "null", "", "Older form of offline_packing_specs.",
     ""},
    {"enable_offline_packing", "bool", "false", "", "Rows come from a packed file.", ""},
    {"offline_packing_specs", "map or null", "null", "",
     "Packed files: packed_sequence_size, paths, padding.", ""},
    {"packing_algorithm", "string", "first_fit_decreasing",
     "first_fit_decreasing first_fit_shuffle", "How sequences are put into packs.", ""},
    {"pad_cu_seqlens", "bool", "false", "",
     "The number of documents of a row is padded to a fixed one.", ""},
    {"pad_seq_to_mult", "int", "1", "", "Documents of a pack are padded to a multiple of this.",
     "lcm of 2 · cp and cp · tp"},
    {"answer_only_loss", "bool", "false", "",
     "Only the answers of conversations are scored; false: every token is.", ""},
    {"dataset_root", "string or null", "null", "", "Folder of a fine-tuning set.", ""},
};

constexpr KnobRow kLoader[] = {
    {"num_workers", "int", "8", "", "Loader processes; rows are read by the rank itself.", "", "",
     kNowhere},
    {"pin_memory", "bool", "true", "", "Pinned host memory of the loader.", "", "", kNowhere},
    {"persistent_workers", "bool", "false", "", "Loader processes outlive an epoch.", "", "",
     kNowhere},
    {"create_attention_mask", "bool", "true", "", "Attention takes document borders, never a mask.",
     "", "", kNowhere},
};

constexpr KnobRow kRows[] = {
    {"pad_to_max_length", "bool", "false", "",
     "Rows of fine-tuning sets are padded to sequence_length; those of indexed data sets have it.",
     "", "", kNowhere},
};

constexpr KnobRow kTokenizer[] = {
    {"tokenizer_type", "string or null", "null", "",
     "Kind of tokenizer; it is found from the files.", ""},
};

constexpr KnobRow kAdapters[] = {
    {"scheme", "string or null", "null", "lora dora canonical_lora",
     "Kind of adapter; null: all weights are trained.", ""},
    {"target_modules", "list of string", "[linear_qkv, linear_proj, linear_fc1, linear_fc2]", "",
     "Linear layers with an adapter; wildcards.", ""},
    {"exclude_modules", "list of string", "[]", "", "Linear layers without one.", ""},
    {"dim", "int", "32", "", "Rank of an adapter.", ""},
    {"alpha", "int", "32", "", "An adapter's output is scaled by alpha / dim.", ""},
    {"dropout", "number", "0.0", "", "Dropout on an adapter's input.", ""},
    {"dropout_position", "string", "pre", "pre post", "Where that dropout is.", ""},
    {"lora_A_init_method", "string", "xavier", "xavier uniform", "Initialization of A.", ""},
    {"lora_B_init_method", "string", "zero", "zero", "Initialization of B.", ""},
};

}  // namespace

std::vector<KnobTable> data() {
  return {{"dataset", "", "packed fine-tuning data", kPacking},
          {"dataset", "", "there are no loader processes and no masks", kLoader},
          {"dataset", "", "every row has sequence_length tokens", kRows},
          {"tokenizer", "", "tokenizers without files", kTokenizer},
          {"peft", "Fine-tuning with adapters.", "adapters", kAdapters}};
}

}  // namespace viaduct::catalogue_tables
