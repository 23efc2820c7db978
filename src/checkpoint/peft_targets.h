#pragma once
// Which modules an adapter_config.json says have an adapter: target_modules, exclude_modules,
// layers_to_transform and layers_pattern, with PEFT's meaning. Which have one follows from the
// tensors; those that these settings leave out are of another file, or the file was edited, and
// those that are missing (peft_missing.h) were lost.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/name_pattern.h"

namespace viaduct {

struct PeftTargets {
  /// A module's whole name or its last parts; or, as a text, a regular expression of whole names.
  struct Names {
    std::vector<std::string> parts;
    bool expressed = false;                 // as a text
    bool all_linear = false;                // which is "all-linear"
    std::optional<NamePattern> expression;  // of another text; none: it is not read here
    bool any() const { return expressed || !parts.empty(); }
  };
  Names modules, excluded;
  std::vector<int64_t> layers;  // empty: all
  /// Of whole names; the last group is the layer's number.
  std::vector<NamePattern> layer_numbers;
  bool parameters = false;  // target_parameters has more, of experts

  /// "" where the settings have this module adapted, else which of them leaves it out. A regular
  /// expression in Python's syntax that cannot be read here leaves out nothing.
  std::string left_out_by(const std::string& module) const;
  /// Whether they certainly ask for an adapter of this linear layer. Without target_modules PEFT
  /// has a list of its own, of kinds of layers: `of_kind` says whether such a layer has an adapter.
  bool ask_for(const std::string& module, bool of_kind) const;

 private:
  bool in_layers(const std::string& module) const;
};

/// IoError, naming `where`, for members of another type than PEFT writes.
PeftTargets read_peft_targets(const std::string& text, const std::string& where);

}  // namespace viaduct
