// Hugging Face's words for settings.

#include "config/foreign_words.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "base/file.h"
#include "run/run_config.h"
#include "support/paths.h"

namespace viaduct {
namespace {

TEST(ForeignWords, NameFieldsThatExist) {
  RunConfig config;
  const Schema schema = run_schema(config);
  std::set<std::string_view> seen;
  for (const ForeignWord& word : foreign_words()) {
    EXPECT_TRUE(seen.insert(word.word).second) << word.word;
    const Field* field = schema.find(word.field);
    ASSERT_NE(field, nullptr) << word.field;
    EXPECT_EQ(field->full_name(), word.field);
    EXPECT_TRUE(schema.find_all(word.word).empty()) << word.word << " is a name of its own";
    EXPECT_EQ(search_form(word.word), word.word);
    // Also where a configuration has the word in some section.
    EXPECT_EQ(schema.suggest("train." + std::string(word.word)), word.field);
  }
}

/// The settings of other programs in the page's table: `name: value` or `name` in its first column.
std::set<std::string> names_of_the_page() {
  const std::string page = read_file(test::source_folder() / "docs" / "fine-tuning.md");
  std::istringstream table(page.substr(page.find("## From axolotl")));
  static const std::regex quoted("`\"?([A-Za-z0-9_]+)[^`]*`");
  std::set<std::string> names;
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("| ")) continue;
    const std::string there = line.substr(0, line.find(" | "));
    for (std::sregex_iterator at(there.begin(), there.end(), quoted), end; at != end; ++at)
      names.insert((*at)[1].str());
  }
  return names;
}

TEST(ForeignWords, OfThePagesTableAreFound) {
  RunConfig config;
  const Schema schema = run_schema(config);
  const std::set<std::string> names = names_of_the_page();
  EXPECT_GT(names.size(), 50u);
  for (const std::string& name : names) {
    EXPECT_TRUE(!schema.find_all(name).empty() || !schema.section_of(name).empty() ||
                find_foreign_word(name) != nullptr)
        << name;
  }
}

TEST(ForeignWords, AreFoundInAnySpelling) {
  for (const char* name :
       {"learning_rate", "--learning-rate", "train.learning_rate", "Learning_Rate"}) {
    const ForeignWord* word = find_foreign_word(name);
    ASSERT_NE(word, nullptr) << name;
    EXPECT_EQ(word->field, "optimizer.lr");
  }
  EXPECT_EQ(find_foreign_word("nothing_like_it"), nullptr);
  EXPECT_EQ(find_foreign_word(""), nullptr);
}

}  // namespace
}  // namespace viaduct
