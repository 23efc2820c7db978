// Lines of any bytes as overrides of a run: problems, or values of the right type. Printing and
// reading a configuration file does not change the values.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "run/run_config.h"
#include "run/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  ConfigInput input;
  for (std::string_view rest(reinterpret_cast<const char*>(data), size); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    input.overrides.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  static RunConfig config;
  static const Schema schema = run_schema(config);
  config = {};
  Problems problems;
  ConfigOutcome outcome = read_config(schema, input, problems);
  check_states(schema, DeviceKind::cpu, outcome, problems);
  if (!problems.empty()) return 0;
  validate(config, outcome, problems);
  const std::string text = to_yaml(schema);
  if (text.size() > kMaxYamlBytes) return 0;
  for (const auto& [section, fields] : parse_yaml(text, "printed").entries) {
    for (const auto& [name, value] : fields.entries) {
      const Field* field = schema.find(section + "." + name);
      if (!field || !field->assign(value)) std::abort();
    }
  }
  if (to_yaml(schema) != text) std::abort();
  return 0;
}
