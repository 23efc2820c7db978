#pragma once
// All fields of a program: the groups of all folders, and the resolution of all spellings of their
// names (canonical names, aliases, and the class and recipe prefixes of Megatron-Bridge and NeMo).

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace viaduct {

class Schema {
 public:
  /// Throws ConfigError if two groups declare the same name: a built field replaces its row of the
  /// catalogue.
  explicit Schema(std::vector<FieldGroup> groups);
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  const std::vector<FieldGroup>& groups() const { return groups_; }
  /// Names of the sections in the order of first appearance.
  const std::vector<std::string>& sections() const { return sections_; }
  std::string section_doc(const std::string& section) const;

  /// The field with a dotted name in any known spelling: "optimizer.lr", "OptimizerConfig.lr",
  /// "recipe.trainer.strategy.ddp.bucket_size". nullptr if the name is unknown or names a section.
  const Field* find(std::string_view name) const;
  /// As `find`, and also for a bare name ("bucket_size", "NCCL_NVLS_ENABLE"): every field that it
  /// may mean.
  std::vector<const Field*> find_all(std::string_view name) const;
  /// The field that a dotted path starts with, and the rest of the path inside its value.
  struct Inside {
    const Field* field;
    std::vector<std::string> keys;
  };
  std::optional<Inside> find_inside(std::string_view path) const;

  /// The section that a spelling refers to ("train", "TrainingConfig", "recipe.trainer"), or "".
  std::string section_of(std::string_view name) const;
  /// Whether some known name continues `path` + ".": then the value at `path` may be a YAML map.
  bool is_prefix(std::string_view path) const;
  /// The field of `section=VALUE`, or nullptr.
  const Field* short_form(std::string_view section) const;

  /// The known name to suggest for an unknown one: the same name in another section first, then the
  /// nearest spelling.
  std::optional<std::string> suggest(std::string_view path) const;

 private:
  const Field* find_in(const std::string& section, std::string_view name) const;
  /// The one field of a section among `names` that has `word` between its underscores, as
  /// num_attention_heads has heads; nullptr if there are none or several.
  const Field* only_one_with_word(const std::string& section, std::string_view word,
                                  const std::vector<std::string>& names) const;

  std::vector<FieldGroup> groups_;
  std::vector<std::string> sections_;
  std::map<std::string, const Field*, std::less<>> names_;  // full names and dotted aliases
  std::map<std::string, std::vector<const Field*>, std::less<>>
      bare_names_;  // names and section-local aliases
};

}  // namespace viaduct
