#include "run/check_conversations.h"

#include "data/conversation_check.h"

namespace viaduct {

std::vector<std::string> check_conversations(const RunConfig& config) {
  std::vector<Split> splits{Split::train};
  if (config.validation.evaluates()) splits.insert(splits.end(), {Split::valid, Split::test});
  return check_conversations(config.dataset, splits);
}

}  // namespace viaduct
