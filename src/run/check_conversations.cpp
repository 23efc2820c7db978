#include "run/check_conversations.h"

#include "data/conversation_check.h"

namespace viaduct {

std::vector<std::string> check_conversations(const RunSetup& setup) {
  const RunConfig& config = setup.config;
  if (config.dataset.pairs) return {};  // which are checked as they are opened
  std::vector<Split> splits{Split::train};
  if (config.validation.evaluates()) splits.insert(splits.end(), {Split::valid, Split::test});
  return check_conversations(
      config.dataset, splits,
      {setup.tokenizer ? &*setup.tokenizer : nullptr, setup.tokenizer_folder.string()});
}

}  // namespace viaduct
