// Planned knobs of data: folders of fine-tuning sets, loaders.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kNowhere = KnobReach::nowhere;

constexpr KnobRow kFineTuning[] = {
    {"dataset_root", "string or null", "null", "",
     "Folder of a fine-tuning set; `viaduct data chat` makes data sets of its files.", ""},
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

}  // namespace

std::vector<KnobTable> data() {
  return {{"dataset", "", "fine-tuning sets as folders of text", kFineTuning},
          {"dataset", "", "there are no loader processes and no masks", kLoader},
          {"dataset", "", "every row has sequence_length tokens", kRows},
          {"tokenizer", "", "tokenizers without files", kTokenizer}};
}

}  // namespace viaduct::catalogue_tables
