#include "generate/prompts.h"

#include <gmock/gmock.h>

#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "generate/stop_text.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::test_data;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;
using Texts = std::vector<std::string>;

const Tokenizer& shakespeare() {
  static const Tokenizer kTokenizer = load_tokenizer(test_data("tokenizer/bpe_shakespeare"));
  return kTokenizer;
}

Texts texts_of(const std::vector<PromptText>& prompts) {
  Texts texts;
  for (const PromptText& prompt : prompts) texts.push_back(prompt.text);
  return texts;
}

template <class F>
std::vector<std::string> problems_of(F&& f) {
  try {
    f();
  } catch (const ConfigError& error) {
    return error.problems();
  }
  return {};
}

TEST(Prompts, AreLinesOrTheFieldOfJsonLines) {
  std::istringstream lines("one\ntwo words\r\n{\"prompt\": 1}"),
      jsonl("{\"prompt\": \"a\\nb\"}\n{\"prompt\": \"c\", \"more\": 1}\n");
  EXPECT_THAT(texts_of(plain_prompts(read_prompt_lines(lines, "x", false))),
              ElementsAre("one", "two words", "{\"prompt\": 1}"));
  const auto read = plain_prompts(read_prompt_lines(jsonl, "x", true));
  EXPECT_THAT(texts_of(read), ElementsAre("a\nb", "c"));
  EXPECT_EQ(read[1].where, "x line 2");
}

TEST(Prompts, FilesThatHoldNoneAreRefused) {
  const auto message = [](const std::string& text, bool jsonl) -> std::string {
    std::istringstream in(text);
    try {
      plain_prompts(read_prompt_lines(in, "file", jsonl));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("", false), HasSubstr("has no prompt"));
  EXPECT_THAT(message("{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n", true), HasSubstr("file line 2"));
  EXPECT_THAT(message("{\"prompt\": 3}\n", true), HasSubstr("found 3"));
  EXPECT_THAT(message("{\"prompt\": ", true), HasSubstr("not valid JSON at byte 11"));
  EXPECT_THAT(message("a\nb\xff z\n", false),
              HasSubstr("file line 2: not UTF-8: 1 ill-formed place, the first at byte 2"));
  EXPECT_THROW(read_prompt_file("no/such/file"), ConfigError);
}

TEST(Prompts, FileNamesSayWhatIsInThem) {
  const test::TemporaryFolder folder;
  for (const char* name : {"p.jsonl", "p.json", "p.txt"})
    write_file_atomically(folder / name, "{\"prompt\": \"a\"}\n");
  EXPECT_THAT(texts_of(plain_prompts(read_prompt_file(folder / "p.jsonl"))), ElementsAre("a"));
  EXPECT_THAT(texts_of(plain_prompts(read_prompt_file(folder / "p.json"))), ElementsAre("a"));
  EXPECT_THAT(texts_of(plain_prompts(read_prompt_file(folder / "p.txt"))),
              ElementsAre("{\"prompt\": \"a\"}"));
}

TEST(Prompts, GetTheLengthThatPositionsLeave) {
  ModelConfig model;
  model.max_positions = 100;
  const auto prompts = make_prompts({{"KING", "a"}, {"the queen", "b"}}, shakespeare(), model, {});
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[1].number, 1);
  EXPECT_EQ(prompts[0].ids, shakespeare().encode("KING"));
  EXPECT_EQ(prompts[0].max_new_tokens, 100 - prompts[0].prompt_tokens());
  EXPECT_EQ(make_prompts({{"KING", "a"}}, shakespeare(), model, 7)[0].max_new_tokens, 7);
  model.max_positions = 4096;
  EXPECT_EQ(make_prompts({{"KING", "a"}}, shakespeare(), model, {})[0].max_new_tokens, 128);
}

TEST(Prompts, AllThatAreEmptyOrTooLongAreNamed) {
  ModelConfig model;
  model.max_positions = 8;
  const auto problems = problems_of([&] {
    make_prompts({{"", "p line 1"}, {"the", "p line 2"}, {"a b c d e f g h i j k", "p line 3"}},
                 shakespeare(), model, 8);
  });
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_THAT(problems[0], HasSubstr("p line 1: empty"));
  EXPECT_THAT(problems[1], HasSubstr("p line 2: "));
  EXPECT_THAT(problems[1], HasSubstr("--max-new-tokens is 8"));
  EXPECT_THAT(problems[2], HasSubstr("p line 3: 1"));
  EXPECT_THAT(problems[2], HasSubstr("8 positions"));
}

TEST(Prompts, ATextThatSpellsTheTokenOfImagesIsNamed) {
  ModelConfig model;
  model.max_positions = 64;
  model.vision.layers = 1, model.vision.image_size = 4, model.vision.patch_size = 2;
  const std::string text = "KING";
  model.vision.image_token = shakespeare().encode(text).front();
  EXPECT_THAT(problems_of([&] {
                make_prompts({{text, "it"}}, shakespeare(), model, {});
              }),
              ElementsAre(HasSubstr(") 1 time, which a text does not have: --chat reads")));
}

TEST(Prompts, BatchesHoldThoseOfSimilarLength) {
  std::vector<Prompt> prompts;
  for (const int64_t length : {5, 1, 9, 2, 5}) {
    prompts.push_back(
        {static_cast<int64_t>(prompts.size()), Ids(static_cast<size_t>(length), 0), 3});
  }
  EXPECT_EQ(longest(prompts), 12);
  std::vector<std::vector<int64_t>> numbers;
  for (const auto& batch : batches_by_length(prompts, 2)) {
    numbers.emplace_back();
    for (const Prompt& prompt : batch) numbers.back().push_back(prompt.number);
  }
  EXPECT_THAT(numbers, ElementsAre(ElementsAre(1, 3), ElementsAre(0, 4), ElementsAre(2)));
}

TEST(Prompts, LinesNameTheirAdapter) {
  std::istringstream jsonl(R"({"prompt": "KING", "adapter": "b"}
{"prompt": "KING"}
{"prompt": "KING", "adapter": null}
{"prompt": "KING", "adapter": "a"}
)");
  const std::vector<PromptText> texts = plain_prompts(read_prompt_lines(jsonl, "x", true));
  ModelConfig model;
  model.max_positions = 64;
  const std::vector<Prompt> prompts = make_prompts(texts, shakespeare(), model, 3, {"a", "b"});
  std::vector<int64_t> adapters;
  for (const Prompt& prompt : prompts) adapters.push_back(prompt.adapter);
  EXPECT_THAT(adapters, ElementsAre(2, 0, 0, 1));
  // A batch is of one.
  std::vector<std::vector<int64_t>> numbers;
  for (const auto& batch : batches_by_length(prompts, 8)) {
    numbers.emplace_back();
    for (const Prompt& prompt : batch) numbers.back().push_back(prompt.number);
  }
  EXPECT_THAT(numbers, ElementsAre(ElementsAre(1, 2), ElementsAre(3), ElementsAre(0)));
  try {
    make_prompts(texts, shakespeare(), model, 3, {"a", "bb"});
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("x line 1: \"adapter\": b is no adapter"));
    EXPECT_THAT(error.what(), HasSubstr("--adapter has a, bb"));
  }
  std::istringstream wrong(R"({"prompt": "KING", "adapter": 5})");
  EXPECT_THROW(plain_prompts(read_prompt_lines(wrong, "x", true)), ConfigError);
}

/// The output for `text`, token by token, with these stop strings.
std::string streamed(const std::string& text, const Texts& stops,
                     std::optional<std::string>* by = nullptr) {
  StopText stream(shakespeare(), stops);
  std::string all;
  for (const int32_t id : shakespeare().encode(text)) {
    all += stream.push(id);
    // Text that was returned is never withdrawn.
    EXPECT_EQ(text.compare(0, all.size(), all), 0) << all;
  }
  all += stream.finish();
  if (by != nullptr) *by = stream.stopped_by();
  return all;
}

TEST(StopText, EndsAtTheFirstStopString) {
  std::optional<std::string> by;
  EXPECT_EQ(streamed("My lord, the king comes.", {"king", "lord, the qu", "comes"}, &by),
            "My lord, the ");
  EXPECT_EQ(by, "king");
  EXPECT_EQ(streamed("My lord, the king comes.", {"queen", "comes.."}, &by),
            "My lord, the king comes.");
  EXPECT_FALSE(by.has_value());
  EXPECT_EQ(streamed("aab", {"ab"}, &by), "a");
  EXPECT_EQ(streamed("First\n\nSecond", {"\n\n"}, &by), "First");
}

TEST(StopText, HoldsBackWhatMayBecomeAStopString) {
  const Texts stops{"\n\n\n"};
  StopText stream(shakespeare(), stops);
  std::string shown;
  for (const int32_t id : shakespeare().encode("end\n")) shown += stream.push(id);
  EXPECT_EQ(shown, "end");
  EXPECT_EQ(stream.finish(), "\n");
}

// Llama 2's decoder leaves out the first space of a text: a continuation has it.
TEST(StopText, IsWhatTokensAddToTheTextBefore) {
  const Tokenizer tokenizer = load_tokenizer(test_data("tokenizer/spm_bpe"));
  const Ids prompt = tokenizer.encode("The king");
  const Ids all = tokenizer.encode("The king is noble.");
  ASSERT_EQ(Ids(all.begin(), all.begin() + static_cast<int64_t>(prompt.size())), prompt);
  const auto streamed = [&](const Texts& stops, const Ids& before) {
    StopText stream(tokenizer, stops, before);
    std::string text;
    for (size_t i = prompt.size(); i < all.size(); ++i) text += stream.push(all[i]);
    return text + stream.finish();
  };
  EXPECT_EQ(streamed({}, prompt), " is noble.");
  EXPECT_EQ(streamed({" is"}, prompt), "");
  EXPECT_EQ(streamed({}, {}), "is noble.") << "an answer";
}

TEST(StopText, StopStringsThatNoTokensSpellAreRefused) {
  check_stop_strings(shakespeare(), {"king", "\n\n", " x", "ü"});
  EXPECT_THAT(problems_of([] {
                check_stop_strings(shakespeare(), {"", "ok"});
              }),
              ElementsAre(HasSubstr("empty")));
  // Its pieces do not contain this character.
  const Tokenizer pieces = load_tokenizer(test_data("tokenizer/spm_unigram"));
  check_stop_strings(pieces, {"king", "the"});
  const std::string ill_formed = "\xff";
  EXPECT_THAT(problems_of([&] { check_stop_strings(shakespeare(), {"a" + ill_formed}); }),
              ElementsAre(HasSubstr("cannot make this text")));
}

/// The end token that training puts behind an input is there, and the decoder begins.
TEST(Prompts, AnEncoderReadsThem) {
  ModelConfig model;
  model.max_positions = 4;  // relative positions have no end
  model.positions = PositionKind::relative;
  model.encoder = {.layers = 2, .start_token = 7};
  model.end_tokens = {1};
  const auto made = make_prompts({{"the cat", "x"}}, shakespeare(), model, 9);
  Ids input = shakespeare().encode("the cat");
  input.push_back(1);
  EXPECT_EQ(made[0].input, input);
  EXPECT_THAT(made[0].ids, ElementsAre(7));
  EXPECT_FALSE(made[0].continues);
  EXPECT_EQ(made[0].max_new_tokens, 9);
  EXPECT_EQ(made[0].asked(), input);
  EXPECT_EQ(longest(made), 10);
}

}  // namespace
}  // namespace viaduct
