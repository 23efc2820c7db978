// JSON of untrusted files: the cost of reading it, and refusals with their place.

#include "base/json_reader.h"

#include <gmock/gmock.h>

#include <map>

#include "base/json.h"

namespace viaduct {
namespace {

int64_t looks = 0;  // at the ends of objects

/// A map that counts calls of end(), one for each iteration of a loop.
template <class Key, class T, class Compare, class Allocator>
struct CountingMap : std::map<Key, T, Compare, Allocator> {
  using Base = std::map<Key, T, Compare, Allocator>;
  using Base::Base;
  auto end() {
    ++looks;
    return Base::end();
  }
  auto end() const {
    ++looks;
    return Base::end();
  }
};

using CountingJson = nlohmann::basic_json<CountingMap>;

std::string object_of(int members) {
  std::string text = "{";
  for (int i = 0; i < members; ++i)
    text += (i == 0 ? "" : ",") + fmt::format("\"name{}\":{{\"shape\":[1,2],\"x\":{}}}", i, i);
  return text + "}";
}

int64_t looks_to_parse(int members) {
  looks = 0;
  const auto json = parse_json<CountingJson>(object_of(members), "test");
  EXPECT_EQ(json.size(), static_cast<size_t>(members));
  return looks;
}

TEST(JsonReader, IsReadInOnePass) {
  const int64_t of_few = looks_to_parse(200), of_many = looks_to_parse(2000);
  // Ten times the members take ten times the work; a quadratic algorithm takes a hundred times.
  EXPECT_LE(of_many, 11 * (of_few + 100));
  EXPECT_LE(of_many, 100 * 2000);
}

TEST(JsonReader, HandsOutMembersOfTheOutermostObject) {
  std::vector<std::string> names;
  const auto rest =
      parse_json<nlohmann::json>(R"({"a": {"b": [1, {"c": 2}]}, "d": 3})", "test", {},
                                 [&](const std::string& name, nlohmann::json&& value) {
                                   names.push_back(name + value.dump());
                                 });
  EXPECT_EQ(names, (std::vector<std::string>{R"(a{"b":[1,{"c":2}]})", "d3"}));
  EXPECT_TRUE(rest.is_object());
  EXPECT_TRUE(rest.empty());
}

/// The message for a text that is refused.
std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  EXPECT_FALSE(try_parse_json<nlohmann::json>(text, limits)) << text;
  try {
    parse_json<nlohmann::json>(text, "file.json", limits);
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}

struct Refused {
  const char* what;
  std::string text, where;
};

TEST(JsonReader, RefusesWithTheOffset) {
  const std::vector<Refused> cases{
      {"cut short", R"({"a": [1, 2)", "byte 11"},
      {"something follows", "{} {}", "byte 3"},
      {"invalid UTF-8", "{\"a\": \"x\xff\"}", "byte 8"},
      {"half a character", "\"\xc3\"", "byte 2"},
      {"a lone surrogate", R"("\ud800")", "byte 7"},
      {"a number beyond FP64", R"([1, 1e999])", "byte 8"},
      {"twice in one object", R"({"a": 1, "a": 2})", "byte 11"},
      {"a zero byte", std::string("[1,\0 2]", 7), "byte 3"},
      {"nothing", "", "byte 0"},
  };
  for (const Refused& refused : cases) {
    const std::string message = refusal(refused.text);
    EXPECT_THAT(message, testing::StartsWith("file.json: ")) << refused.what;
    EXPECT_THAT(message, testing::HasSubstr(refused.where)) << refused.what;
    EXPECT_THAT(message, testing::Not(testing::HasSubstr("json.exception"))) << refused.what;
  }
}

TEST(JsonReader, RefusesWhatIsBeyondTheLimits) {
  EXPECT_THAT(refusal(std::string(70, '[')), testing::HasSubstr("64 levels at byte 64"));
  EXPECT_THAT(refusal("[[[]]]", {.depth = 2}), testing::HasSubstr("2 levels at byte 2"));
  EXPECT_THAT(refusal("[1, 2, 3]", {.array_elements = 2}), testing::HasSubstr("2 elements"));
  EXPECT_THAT(refusal("[1, 2, 3]", {.bytes = 8}), testing::HasSubstr("9 bytes"));
  EXPECT_TRUE(
      try_parse_json<nlohmann::json>("[[1, 2]]", {.bytes = 8, .depth = 2, .array_elements = 2}));
}

TEST(JsonReader, KeepsIntegersOf64Bits) {
  const auto read = parse_json<nlohmann::json>(
      "[9223372036854775807, -9223372036854775808, 18446744073709551615, 1000000000000000000000]",
      "test");
  EXPECT_EQ(json_count(read[0]), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(read[1].get<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(read[2].get<uint64_t>(), std::numeric_limits<uint64_t>::max());
  EXPECT_FALSE(json_count(read[2]));
  EXPECT_TRUE(read[3].is_number_float());
}

TEST(JsonReader, TellsJsonFromText) {
  EXPECT_TRUE(is_json<nlohmann::json>(R"({"a": [1, null]})"));
  EXPECT_TRUE(is_json<nlohmann::json>(std::string(500, '[') + std::string(500, ']')));
  EXPECT_FALSE(is_json<nlohmann::json>("{a}"));
  EXPECT_FALSE(is_json<nlohmann::json>(R"({"a": 1} and more)"));
}

// Messages are UTF-8 whatever the file holds, also where they are cut off.
TEST(JsonReader, ShowsNamesAsText) {
  EXPECT_EQ(shown_name("a\xc4"), "a?");
  EXPECT_EQ(shown_name("\x80\xf8z\n"), "??z?");
  EXPECT_EQ(shown_name("\u00e9\U0001F600"), "\u00e9\U0001F600");
  for (const char* ill_formed : {"\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_EQ(shown_name(ill_formed), std::string(std::string_view(ill_formed).size(), '?'));
  const std::string long_name(199, 'a');
  EXPECT_EQ(shown_name(long_name + "\u00e9"), long_name + "...");
  EXPECT_EQ(shown_name(long_name + "b"), long_name + "b");
}

}  // namespace
}  // namespace viaduct
