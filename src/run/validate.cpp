#include "run/validate.h"

#include "run/rules/rules.h"

namespace viaduct {

void validate(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems) {
  for (const Topic& topic : topics())
    if (topic.refuse != nullptr) topic.refuse(config, outcome, problems);
}

}  // namespace viaduct
