#include "run/resume_rules.h"

namespace viaduct {

std::optional<ResumeRule> resume_rule(const Schema& schema, std::string_view name) {
  if (name == kDatasetContent) return resume::refused(resume::other_rows);
  if (name == kTokenizerContent)
    return resume::refused("the weights were trained on the tokens of the old tokenizer");
  const Field* field = schema.find(name);
  return field && field->full_name() == name ? field->resume : std::nullopt;
}

}  // namespace viaduct
