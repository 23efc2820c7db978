// JSON of untrusted files: the cost of reading it.

#include "checkpoint/strict_json.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

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
  const auto json = parse_strict_json<CountingJson>(object_of(members), {}, "test");
  EXPECT_EQ(json.size(), static_cast<size_t>(members));
  return looks;
}

TEST(StrictJson, IsReadInOnePass) {
  const int64_t of_few = looks_to_parse(200), of_many = looks_to_parse(2000);
  // Ten times the members, ten times the work; a quadratic algorithm needs a hundred times.
  EXPECT_LE(of_many, 11 * (of_few + 100));
  EXPECT_LE(of_many, 100 * 2000);
}

TEST(StrictJson, HandsOutMembersOfTheOutermostObject) {
  std::vector<std::string> names;
  const auto rest =
      parse_strict_json<nlohmann::json>(R"({"a": {"b": [1, {"c": 2}]}, "d": 3})", {}, "test",
                                        [&](const std::string& name, nlohmann::json&& value) {
                                          names.push_back(name + value.dump());
                                        });
  EXPECT_EQ(names, (std::vector<std::string>{R"(a{"b":[1,{"c":2}]})", "d3"}));
  EXPECT_TRUE(rest.is_object());
  EXPECT_TRUE(rest.empty());
}

}  // namespace
}  // namespace viaduct
