// Files of tasks, their tokens and their figures, compared with lm_eval.

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "data/tasks/task_scores.h"
#include "data/tasks/task_tokens.h"
#include "support/golden_tasks.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::GoldenTasks;
using testing::ElementsAre;
using testing::HasSubstr;

TaskFile parse(const std::string& text) {
  return parse_task_file(text, "tasks.jsonl", "tasks");
}

TEST(TaskFiles, HaveChoicesAndContinuations) {
  const TaskFile file = parse(
      "{\"context\": \"A\", \"choices\": [\"b\", \"c\"], \"answer\": 1, \"task\": \"x\"}\r\n"
      "\n"
      "{\"context\": \"\", \"continuation\": \" d\", \"id\": 7}\n");
  ASSERT_EQ(file.lines.size(), 2u);
  EXPECT_THAT(file.lines[0].choices, ElementsAre("b", "c"));
  EXPECT_EQ(file.lines[0].answer, 1u);
  EXPECT_EQ(file.lines[1].continuation, " d");
  EXPECT_FALSE(file.lines[1].is_choice());
  EXPECT_EQ(file.where(file.lines[1]), "tasks.jsonl line 3");
  EXPECT_THAT(file.tasks(), ElementsAre("x", "tasks"));
}

TEST(TaskFiles, ALineThatIsNoTaskIsAnErrorWithItsNumberAndWhatIsExpected) {
  const std::string good = "{\"context\": \"A\", \"continuation\": \"b\"}\n";
  const std::pair<const char*, const char*> kBad[] = {
      {"nonsense", "not valid JSON"},
      {"[1]", "expected an object"},
      {R"({"context": 1, "continuation": "b"})", "\"context\": expected a text, found 1"},
      {R"({"continuation": "b"})", "\"context\": expected a text, it is missing"},
      {R"({"context": "A"})", "found neither"},
      {R"({"context": "A", "continuation": "b", "choices": ["b"], "answer": 0})", "found both"},
      {R"({"context": "A", "continuation": ""})", "a text that is not empty"},
      {R"({"context": "A", "choices": [], "answer": 0})", "expected a list of texts, found []"},
      {R"({"context": "A", "choices": ["b", 2], "answer": 0})", "choice 1"},
      {R"({"context": "A", "choices": ["b", ""], "answer": 0})", "choice 1"},
      {R"({"context": "A", "choices": ["b", "c"], "answer": 2})", "0 to 1, found 2"},
      {R"({"context": "A", "choices": ["b", "c"], "answer": -1})", "0 to 1, found -1"},
      {R"({"context": "A", "choices": ["b", "c"]})", "\"answer\""},
      {R"({"context": "A", "continuation": "b", "task": ""})", "\"task\""},
  };
  for (const auto& [line, expected] : kBad) {
    try {
      parse(good + line);
      ADD_FAILURE() << line;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("tasks.jsonl line 2")) << line;
      EXPECT_THAT(error.what(), HasSubstr(expected)) << line;
    }
  }
  EXPECT_THROW(parse("\n \n"), ConfigError);
  EXPECT_THROW(read_task_file("--tasks", "/no/such/file.jsonl"), ConfigError);
  EXPECT_THROW(read_task_file("--tasks", test::test_data("tasks")), ConfigError);
}

TEST(TaskFiles, ExamplesAreTextBeforeAContext) {
  const TaskFile file = parse(
      "{\"context\": \"A\", \"choices\": [\"b\", \"c\"], \"answer\": 1}\n"
      "{\"context\": \"D\", \"continuation\": \"e\"}\n");
  EXPECT_EQ(few_shot_text(file, 2, ": "), "A: c\n\nDe\n\n");
  EXPECT_EQ(few_shot_text(file, 0, " "), "");
  EXPECT_THROW(few_shot_text(file, 3, " "), ConfigError);
}

TEST(TaskTokens, AreThoseOfTheReference) {
  for (const char* model : {"model_bos", "model_plain"}) {
    for (const bool with_examples : {false, true}) {
      const GoldenTasks golden(model, with_examples);
      const Tokenizer tokenizer = load_tokenizer(golden.model);
      std::vector<ScoredTokens> texts =
          task_tokens(golden.file, tokenizer, {.examples = golden.examples});
      const std::vector<ScoredTokens> whole = texts;
      const int64_t shortened = cut_to_row(golden.file, golden.row, texts);
      int64_t expected_shortened = 0;
      size_t text = 0;
      ASSERT_EQ(golden.rows.size(), golden.file.lines.size());
      for (size_t i = 0; i < golden.rows.size(); ++i) {
        const auto& row = golden.rows[i];
        const auto context = row.at("context_tokens").get<std::vector<int32_t>>();
        const std::string where = golden.file.where(golden.file.lines[i]);
        for (size_t c = 0; c < golden.file.lines[i].texts(); ++c, ++text) {
          const auto scored = row.at("scored_tokens")[c].get<std::vector<int32_t>>();
          ASSERT_EQ(whole[text].scored, static_cast<int64_t>(scored.size())) << where;
          EXPECT_TRUE(
              std::equal(scored.begin(), scored.end(), whole[text].ids.end() - whole[text].scored))
              << where;
          if (c == 0) {
            EXPECT_TRUE(std::equal(context.begin(), context.end(), whole[text].ids.begin(),
                                   whole[text].ids.end() - whole[text].scored))
                << where;
          }
          const auto cut = row.at("truncated")[c].get<int64_t>();
          EXPECT_EQ(static_cast<int64_t>(whole[text].ids.size() - texts[text].ids.size()), cut)
              << where;
          expected_shortened += cut > 0 ? 1 : 0;
        }
      }
      EXPECT_EQ(text, texts.size());
      EXPECT_EQ(shortened, expected_shortened);
    }
  }
}

TEST(TaskTokens, ALineWithNothingToScoreOrTooMuchIsNamed) {
  const Tokenizer tokenizer = load_tokenizer(GoldenTasks("model_plain").model);
  const TaskFile own = parse("{\"context\": \"\", \"continuation\": \"<|endoftext|>\"}\n");
  try {
    task_tokens(own, tokenizer, {});
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tasks.jsonl line 1"));
    EXPECT_THAT(error.what(), HasSubstr("the continuation adds no token"));
  }
  const TaskFile longer =
      parse("{\"context\": \"A\", \"continuation\": \" one two three four five six\"}\n");
  std::vector<ScoredTokens> texts = task_tokens(longer, tokenizer, {});
  EXPECT_THROW(cut_to_row(longer, texts[0].scored - 1, texts), ConfigError);
  // All that is scored, and one token before it.
  EXPECT_EQ(cut_to_row(longer, texts[0].scored, texts), 0);
}

TEST(TaskFigures, AreThoseOfTheReference) {
  for (const char* model : {"model_bos", "model_plain"}) {
    for (const bool with_examples : {false, true}) {
      const GoldenTasks golden(model, with_examples);
      std::vector<TextLikelihood> texts;
      for (const auto& row : golden.rows) {
        for (size_t c = 0; c < row.at("log_likelihoods").size(); ++c)
          texts.push_back({row.at("log_likelihoods")[c], row.at("is_greedy")[c]});
      }
      nlohmann::json found;
      for (const TaskFigures& figures : task_figures(golden.file, texts))
        found[figures.task] = nlohmann::json::parse(to_json(figures).dump());
      test::expect_golden_figures(found, golden);
    }
  }
}

TEST(TaskFigures, LengthsAreCharactersAndBytes) {
  // é: one character, two bytes.
  const TaskFile file =
      parse("{\"context\": \"A\", \"choices\": [\"éé\", \"abc\"], \"answer\": 0}\n");
  // By character −1.5 and −1.1, by byte −0.75 and −1.1.
  const auto figures = task_figures(file, {{-3.0, false}, {-3.3, false}});
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].acc.value, 1);
  EXPECT_EQ(figures[0].acc_norm->value, 0);
  EXPECT_EQ(figures[0].acc_bytes->value, 1);
  EXPECT_FALSE(figures[0].acc.error.has_value());
  EXPECT_FALSE(figures[0].perplexity.has_value());
  EXPECT_TRUE(to_json(figures[0]).at("acc_stderr").is_null());
  EXPECT_THAT(named_figures(figures[0]),
              ElementsAre(testing::Pair("acc", 1.0), testing::Pair("acc_norm", 0.0),
                          testing::Pair("acc_bytes", 1.0)));
}

}  // namespace
}  // namespace viaduct
