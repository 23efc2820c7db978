#pragma once
// The text model inside a model that takes images too, as one of the families. Published folders
// have its fields in `text_config` (or, in older files of Qwen 2 VL, beside `vision_config`), where
// those with the default of their class may be missing.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

struct TextHalf {
  std::string config;  // the text of a config.json that describes the text model alone
  std::string note;    // what is left out, for messages
};

/// The types of models with images whose text models are read, in alphabetical order.
std::vector<std::string> types_with_text_halves();

/// Nothing for the text of any other config.json. ConfigError (with `where`) for models whose text
/// half is not one of the families; IoError as HfConfig for text that is not JSON.
std::optional<TextHalf> text_half(std::string_view text, const std::string& where);

/// The name of a tensor of the text half under which its family has it, of those that such folders
/// use: "language_model.model.X" and "model.language_model.X" are "model.X". Nothing for tensors of
/// vision towers and projectors. Other names are unchanged.
std::optional<std::string> text_half_name(std::string_view name);

}  // namespace viaduct
