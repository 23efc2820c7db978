// Hugging Face's words for settings.

#include "config/foreign_words.h"

#include <gtest/gtest.h>

#include <set>

#include "run/run_config.h"

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
