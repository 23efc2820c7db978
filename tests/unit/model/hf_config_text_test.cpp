// The text of a config.json before its fields are read: errors name their place, and JSON in memory
// is read without being written first.

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "config/value_json.h"
#include "model/family.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(HfConfigText, DamageHasAPlace) {
  const auto read = [](const std::string& text) {
    return [text] { read_hf_config(text, "folder/config.json"); };
  };
  EXPECT_THAT(read(R"({"model_type": "llama", )"),
              ThrowsMessage<IoError>(AllOf(HasSubstr("folder/config.json"), HasSubstr("byte 24"))));
  EXPECT_THAT(read(R"({"a": 1, "a": 2})"), ThrowsMessage<IoError>(HasSubstr("\"a\"")));
  EXPECT_THAT(read(std::string(40, '[')), ThrowsMessage<IoError>(HasSubstr("32 levels")));
  EXPECT_THAT(read("[1]"), ThrowsMessage<ConfigError>(HasSubstr("object")));
}

TEST(HfConfigText, ReadsJsonThatWasJustMade) {
  HfConfig config = HfConfig::of_json({{"hidden_size", 64}, {"name", "x"}}, "made");
  EXPECT_EQ(config.integer("hidden_size"), 64);
  EXPECT_EQ(config.text("name"), "x");
  EXPECT_TRUE(config.finish().empty());
}

TEST(HfConfigText, ValuesOfJsonAreThoseOfYaml) {
  const std::string text = R"({"type": "yarn", "factor": 2.5, "n": 8, "on": true, "no": null,
                               "list": [1, "1", []], "empty": {}})";
  const Value value = value_of_json(nlohmann::ordered_json::parse(text));
  EXPECT_EQ(to_flow_yaml(value), to_flow_yaml(parse_yaml(text, "text")));
  EXPECT_EQ(to_json(value), nlohmann::ordered_json::parse(text));
}

}  // namespace
}  // namespace viaduct
