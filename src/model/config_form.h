#pragma once
// The spelling of a config.json: versions 4 and 5 of Hugging Face's transformers write the same
// model differently (base and scaling of rotary positions, the name of the weights' format).

#include <string>

namespace viaduct {

enum class ConfigForm { version4, version5 };

/// The text of a config.json of a family, or of a model with images and a text model of one, in the
/// spelling of that version; unchanged where both have the same. ConfigError if version 4 does not
/// have the family, or cannot say what the file says.
std::string in_config_form(const std::string& config, ConfigForm form);

}  // namespace viaduct
