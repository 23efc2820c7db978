// Chat files to datasets with a mask.

#include "conversation/chat_files.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/output_file.h"
#include "conversation/conversation_source.h"
#include "data/dataset_files.h"
#include "data/indexed_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "data/score_mask.h"
#include "data/token_record.h"
#include "support/chat_tokenizer.h"
#include "support/compress.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string chat(const std::string& question, const std::string& answer) {
  return R"({"messages": [{"role": "user", "content": ")" + question +
         R"("}, {"role": "assistant", "content": ")" + answer + "\"}]}";
}

const char* const kShort =
    "{% for m in messages %}{{ m.role[0] + ':' + m.content + '</s>' }}{% endfor %}{% if "
    "add_generation_prompt %}{{ 'a:' }}{% endif %}";

class ChatFiles : public testing::Test {
 protected:
  ChatFiles() {
    settings_.tokenizer = &tokenizer_;
    settings_.renderer = &renderer_;
    settings_.type = TokenType::uint16;
    settings_.output = folder_ / "out";
  }

  ChatFilesResult convert(const std::string& text, const char* name = "chat.jsonl") {
    write_file_atomically(folder_ / name, text);
    settings_.inputs = {folder_ / name};
    return convert_chat_files(settings_);
  }
  /// The rows of the dataset, what is learned in brackets.
  std::vector<std::string> rows() const {
    const IndexedDataset tokens(settings_.output), mask(settings_.output.string() + ".mask");
    std::vector<std::string> result;
    for (int64_t i = 0; i < tokens.sequence_count(); ++i) {
      const auto length = static_cast<size_t>(tokens.sequence_length(i));
      std::vector<int64_t> ids(length), learned(length);
      tokens.read(i, 0, std::span<int64_t>(ids));
      mask.read(i, 0, std::span<int64_t>(learned));
      ChatRow row;
      row.ids.assign(ids.begin(), ids.end());
      row.mask.assign(learned.begin(), learned.end());
      result.push_back(test::bracketed(tokenizer_, row));
    }
    return result;
  }
  bool left_nothing() const {
    for (const char* name : {"out.bin", "out.idx", "out.mask.bin", "out.mask.idx"}) {
      if (std::filesystem::exists(folder_ / name)) return false;
    }
    return true;
  }

  test::TemporaryFolder folder_;
  const Tokenizer tokenizer_ = test::chat_tokenizer();
  const ChatRenderer renderer_ = ChatRenderer::of_text(kShort, "chat.jinja", {});
  ChatFilesSettings settings_;
};

TEST_F(ChatFiles, BecomeRowsWithAMask) {
  const ChatFilesResult result = convert(chat("Hi", "Yo") + "\n\n" + chat("Why", "So") + "\n");
  EXPECT_THAT(rows(), ElementsAre("u:Hi</s>a:[Yo</s>]", "u:Why</s>a:[So</s>]"));
  EXPECT_EQ(result.conversations, 2);
  EXPECT_EQ(result.rows, 2);
  EXPECT_EQ(result.tokens, 10 + 11);
  EXPECT_EQ(result.scored, 6);
  EXPECT_EQ(result.longest, 11);
  EXPECT_THAT(result.train_on, ElementsAre("assistant"));
  const IndexedDataset tokens(settings_.output);
  EXPECT_EQ(tokens.document_count(), 2);
  EXPECT_EQ(IndexedDataset(settings_.output.string() + ".mask").token_type(), TokenType::uint8);
  const auto record = read_token_record(tokens);
  ASSERT_TRUE(record && record->conversations);
  EXPECT_EQ(record->separator, -1);
  EXPECT_EQ(record->conversations->train_on, "assistant");
  EXPECT_THAT(record->conversations->chat_templates, ElementsAre(renderer_.hash()));
  EXPECT_EQ(record->conversations->scored, 6);
}

TEST_F(ChatFiles, DoNotDependOnWorkersAndPieces) {
  std::string text;
  for (int i = 0; i < 9000; ++i)
    text += chat(std::to_string(i), std::string(static_cast<size_t>(i % 90), 'x') + "y") + "\n";
  ASSERT_GT(text.size(), 3 * ConversationSource::kPieceBytes);
  convert(text);
  const auto contents = [&] {
    std::string all;
    for (const char* name : {"out.bin", "out.idx", "out.mask.bin", "out.mask.idx"})
      all += read_file(folder_ / name);
    return all;
  };
  const std::string one = contents();
  settings_.workers = 3;
  convert(text);
  EXPECT_EQ(contents(), one);
  write_file_atomically(folder_ / "x.jsonl.gz", test::gzip(text));
  settings_.inputs = {folder_ / "x.jsonl.gz"};
  convert_chat_files(settings_);
  EXPECT_EQ(contents(), one);
}

TEST_F(ChatFiles, OfOneListAreTheSame) {
  convert("\n [" + chat("a]{", "b,\\\"]") + " ,\n" + chat("c", "d") + "]\n", "chat.json");
  EXPECT_THAT(rows(), ElementsAre("u:a]{</s>a:[b,\"]</s>]", "u:c</s>a:[d</s>]"));
  EXPECT_THAT([&] { convert("[" + chat("a", "b"), "chat.json"); },
              ThrowsMessage<IoError>(HasSubstr("the list does not end")));
  EXPECT_THAT([&] { convert("[" + chat("a", "b") + "] x", "chat.json"); },
              ThrowsMessage<IoError>(HasSubstr("something follows the list")));
  EXPECT_THAT([&] { convert("[" + chat("a", "b") + ", 3]", "chat.json"); },
              ThrowsMessage<IoError>(HasSubstr("chat.json: element 2")));
}

TEST_F(ChatFiles, ThatLostTheirMaskAreRefused) {
  convert(chat("Hi", "Yo"));
  const std::string prefix = settings_.output.string();
  EXPECT_NO_THROW(check_dataset_files({prefix}, "--input"));
  std::filesystem::remove(prefix + ".mask.bin");
  EXPECT_THAT([&] { check_dataset_files({prefix}, "--input"); },
              ThrowsMessage<ConfigError>(HasSubstr(prefix + ".mask.bin does not exist")));
  std::filesystem::remove(prefix + ".mask.idx");
  EXPECT_THAT([&] { check_dataset_files({prefix}, "--input"); },
              ThrowsMessage<ConfigError>(
                  testing::AllOf(HasSubstr("--input: data set " + prefix),
                                 HasSubstr("holds conversations (" + prefix + ".tokens.json)"),
                                 HasSubstr(prefix + ".mask.idx and " + prefix + ".mask.bin"))));
  EXPECT_THROW(check_mask_files(IndexedDataset(prefix)), IoError);
  // Without a record, nobody knows.
  std::filesystem::remove(prefix + ".tokens.json");
  EXPECT_NO_THROW(check_mask_files(IndexedDataset(prefix)));
}

TEST_F(ChatFiles, AreMergedWithTheirMasks) {
  const std::filesystem::path merged = settings_.output, a = folder_ / "a", b = folder_ / "b";
  settings_.output = a;
  convert(chat("Hi", "Yo"));
  settings_.output = b;
  convert(chat("Why", "So") + "\n" + chat("x", "y"));
  merge_indexed_datasets({a, b}, merged);
  settings_.output = merged;
  EXPECT_THAT(rows(), ElementsAre("u:Hi</s>a:[Yo</s>]", "u:Why</s>a:[So</s>]", "u:x</s>a:[y</s>]"));
  const auto record = read_token_record(IndexedDataset(merged));
  ASSERT_TRUE(record && record->conversations);
  EXPECT_EQ(record->conversations->scored, 3 + 3 + 2);
  EXPECT_THAT(record->conversations->chat_templates, ElementsAre(renderer_.hash()));
  EXPECT_TRUE(record->vocabulary);
  // Plain text has no place among them, and leaves no mask behind.
  IndexedDatasetWriter plain(folder_ / "plain", TokenType::uint16);
  plain.add_document(std::vector<int32_t>{1, 2});
  plain.finish();
  EXPECT_THAT(
      [&] {
        merge_indexed_datasets({a, folder_ / "plain"}, folder_ / "no");
      },
      ThrowsMessage<ConfigError>(HasSubstr("plain has none")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "no.mask.bin"));
  merge_indexed_datasets({folder_ / "plain"}, merged);
  EXPECT_FALSE(has_mask(merged.string()));
  EXPECT_NO_THROW(check_mask_files(IndexedDataset(merged)));
}

TEST_F(ChatFiles, OfOtherTemplatesAreMergedWithAWarningAndAllOfThem) {
  const auto of = [&](const char* name, std::optional<uint64_t> used) {
    settings_.output = folder_ / name;
    convert(chat("Hi", "Yo"));
    const IndexedDataset made(settings_.output);
    TokenRecord record = read_token_record(made).value();
    record.conversations->chat_templates = {used};
    write_token_record(made.prefix(), record);
    return std::filesystem::path(made.prefix());
  };
  const auto one = of("one", 0xa1), two = of("two", 0xb2), none = of("none", std::nullopt);
  const auto merge = [&](const std::vector<std::filesystem::path>& parts, const char* name) {
    testing::internal::CaptureStderr();
    merge_indexed_datasets(parts, folder_ / name);
    return testing::internal::GetCapturedStderr();
  };
  const auto templates_of = [&](const char* name) {
    return read_token_record(IndexedDataset(folder_ / name)).value().conversations->chat_templates;
  };
  EXPECT_THAT(merge({one, two}, "both"),
              testing::AllOf(HasSubstr(one.string()), HasSubstr(two.string()),
                             HasSubstr("00000000000000a1 beside 00000000000000b2")));
  EXPECT_THAT(templates_of("both"), ElementsAre(0xa1u, 0xb2u));
  EXPECT_THAT(merge({folder_ / "both", two, none}, "all"),
              testing::AllOf(HasSubstr(two.string()), HasSubstr(none.string()),
                             HasSubstr("00000000000000a1, 00000000000000b2 beside none")));
  EXPECT_THAT(templates_of("all"), ElementsAre(0xa1u, 0xb2u, std::nullopt));
  EXPECT_THAT(merge({none, none}, "plain"), testing::Not(HasSubstr("template")));
  EXPECT_THAT(templates_of("plain"), ElementsAre(std::nullopt));
}

TEST_F(ChatFiles, WithInvalidLinesAreRefusedWithCounts) {
  const std::string text = chat("a", "b") + "\n{\n" + chat("a", "") + "\n" +
                           R"({"messages": [{"role": "x", "content": "y"}]})" + "\n{]\n";
  EXPECT_THAT([&] { convert(text); }, ThrowsMessage<IoError>(testing::AllOf(
                                          HasSubstr("4 conversations cannot be learned from"),
                                          HasSubstr("2 lines: not a JSON object"),
                                          HasSubstr("chat.jsonl:2"), HasSubstr("chat.jsonl:3"),
                                          HasSubstr("chat.jsonl:4"), HasSubstr("--invalid skip"))));
  EXPECT_TRUE(left_nothing());
  settings_.skip_invalid = true;
  const ChatFilesResult result = convert(text);
  EXPECT_EQ(result.invalid(), 4);
  EXPECT_EQ(result.rows, 1);
}

TEST_F(ChatFiles, HaveOneFormEach) {
  settings_.skip_invalid = true;
  EXPECT_THAT([&] { convert(chat("a", "b") + "\n{\"input\": \"a\", \"output\": \"b\"}\n"); },
              ThrowsMessage<IoError>(
                  testing::AllOf(HasSubstr("chat.jsonl:2"), HasSubstr("a file has one form"))));
  EXPECT_TRUE(left_nothing());
}

TEST_F(ChatFiles, WithLongRowsDoAsAsked) {
  const std::string text =
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "12345"},
          {"role": "assistant", "content": "abc"}]})";
  std::string line = text;
  line.erase(std::remove(line.begin(), line.end(), '\n'), line.end());
  const std::string both = line + "\n" + chat("a", "b");
  settings_.max_length = 12;
  EXPECT_THAT([&] { convert(both); },
              ThrowsMessage<IoError>(testing::AllOf(HasSubstr("1 row is longer"),
                                                    HasSubstr("the longest of 18 tokens"))));
  settings_.overlong = Overlong::drop;
  const ChatFilesResult shorter = convert(both);
  EXPECT_EQ(shorter.overlong, 1);
  EXPECT_EQ(shorter.longest, 18);
  EXPECT_EQ(shorter.longest_written, 8);
  EXPECT_THAT(rows(), ElementsAre("u:a</s>a:[b</s>]"));
  settings_.max_length = 5;
  EXPECT_THAT([&] { convert(both); },
              ThrowsMessage<IoError>(HasSubstr(
                  "2 rows longer than --max-length 5 dropped (the longest has 18 tokens)")));
  settings_.max_length = 15;
  settings_.overlong = Overlong::truncate_start;
  convert(both);
  EXPECT_THAT(rows(), ElementsAre("s:S</s>u:45</s>a:[abc</s>]", "u:a</s>a:[b</s>]"));
  // An answer never stays without its question.
  settings_.max_length = 13;
  const ChatFilesResult unfit = convert(both);
  EXPECT_EQ(unfit.overlong, 1);
  EXPECT_EQ(unfit.unfit, 1);
  EXPECT_THAT(rows(), ElementsAre("u:a</s>a:[b</s>]"));
  EXPECT_THAT([&] { convert(line); },
              ThrowsMessage<IoError>(HasSubstr("1 row whose last answer and its question do not "
                                               "fit into 13 tokens dropped")));
  settings_.max_length = 12;
  settings_.overlong = Overlong::truncate_end;
  EXPECT_EQ(convert(both).dropped, 1);
  EXPECT_THAT(rows(), ElementsAre("u:a</s>a:[b</s>]"));
  settings_.max_length = 16;
  convert(both);
  EXPECT_THAT(rows(), ElementsAre("s:S</s>u:12345</s>a:[ab]", "u:a</s>a:[b</s>]"));
}

std::string turns(const std::vector<std::pair<std::string, std::string>>& messages) {
  std::string line;
  for (const auto& [role, content] : messages)
    line += (line.empty() ? "" : ", ") + ("{\"role\": \"" + role + "\", \"content\": \"") +
            content + "\"}";
  return "{\"messages\": [" + line + "]}";
}

TEST_F(ChatFiles, LosingTheirStartBeginWithAQuestion) {
  const std::string line = turns({{"system", "S"},
                                  {"user", "1"},
                                  {"assistant", "a"},
                                  {"user", "2"},
                                  {"tool", "t"},
                                  {"assistant", "b"},
                                  {"user", "3"},
                                  {"assistant", "c"}});
  settings_.overlong = Overlong::truncate_start;
  // Of 32 tokens, 4 a message.
  const std::pair<int64_t, const char*> expected[] = {
      {32, "s:S</s>u:1</s>a:[a</s>]u:2</s>t:t</s>a:[b</s>]u:3</s>a:[c</s>]"},
      {31, "s:S</s>u:2</s>t:t</s>a:[b</s>]u:3</s>a:[c</s>]"},
      {24, "s:S</s>u:2</s>t:t</s>a:[b</s>]u:3</s>a:[c</s>]"},
      {23, "s:S</s>u:3</s>a:[c</s>]"},
      {12, "s:S</s>u:3</s>a:[c</s>]"}};
  for (const auto& [length, row] : expected) {
    settings_.max_length = length;
    convert(line);
    EXPECT_THAT(rows(), ElementsAre(row)) << length;
  }
  settings_.max_length = 11;
  EXPECT_THROW(convert(line), IoError);
  // A last question without an answer is not what is kept.
  settings_.max_length = 12;
  convert(
      turns({{"user", "1"}, {"assistant", "a"}, {"user", "2"}, {"assistant", "b"}, {"user", "3"}}));
  EXPECT_THAT(rows(), ElementsAre("u:2</s>a:[b</s>]u:3</s>"));
}

TEST_F(ChatFiles, LosingTheirStartKeepTheTemplatesOwnSystemMessage) {
  const ChatRenderer renderer = ChatRenderer::of_text(
      std::string("{% if messages[0].role != 'system' %}s:D</s>{% endif %}") + kShort, "chat.jinja",
      {});
  settings_.renderer = &renderer;
  settings_.overlong = Overlong::truncate_start;
  settings_.max_length = 15;
  convert(turns({{"user", "1"}, {"assistant", "a"}, {"user", "2"}, {"assistant", "b"}}));
  EXPECT_THAT(rows(), ElementsAre("s:D</s>u:2</s>a:[b</s>]"));
}

TEST_F(ChatFiles, LosingTheirStartHaveRowsOfOneAnswerToo) {
  // Shows thoughts of the last answer alone.
  const ChatRenderer renderer = ChatRenderer::of_text(
      "{% for m in messages %}{{ m.role[0] + ':' + (m.content if loop.last else "
      "m.content[-1]) + '</s>' }}{% endfor %}{% if add_generation_prompt %}{{ 'a:' }}{% endif %}",
      "chat.jinja", {});
  settings_.renderer = &renderer;
  settings_.overlong = Overlong::truncate_start;
  settings_.max_length = 11;
  const ChatFilesResult result = convert(turns({{"user", "1"},
                                                {"assistant", "ta"},
                                                {"user", "2"},
                                                {"assistant", "tb"},
                                                {"user", "3"},
                                                {"assistant", "tc"}}));
  EXPECT_EQ(result.own_rows, 2);
  EXPECT_THAT(rows(), testing::UnorderedElementsAre("u:1</s>a:[ta</s>]", "u:2</s>a:[tb</s>]",
                                                    "u:3</s>a:[tc</s>]"));
}

TEST_F(ChatFiles, OfPromptAndCompletionKeepSomeOfThePrompt) {
  settings_.overlong = Overlong::truncate_start;
  settings_.max_length = 4;
  const std::string line = R"({"prompt": "12345", "completion": "abc"})";
  convert(line);
  EXPECT_THAT(rows(), ElementsAre("5[abc]"));
  settings_.max_length = 3;
  EXPECT_THROW(convert(line), IoError);
  settings_.train_on = TrainOn::all;
  convert(line);
  EXPECT_THAT(rows(), ElementsAre("a[bc]"));
}

TEST_F(ChatFiles, ThatAreNotUtf8AreCounted) {
  const std::string text = chat("a", "b") + "\n" + chat("a", "caf\xe9") + "\n" + chat("\xff", "b") +
                           "\n" + chat("\xc3\xa9", "b") + "\n";
  EXPECT_THAT([&] { convert(text); },
              ThrowsMessage<IoError>(testing::AllOf(
                  HasSubstr("2 lines: not UTF-8 (the first: "), HasSubstr("chat.jsonl:2"),
                  HasSubstr("1 ill-formed place, the first at byte "))));
  EXPECT_TRUE(left_nothing());
  settings_.skip_invalid = true;
  const ChatFilesResult result = convert(text);
  EXPECT_EQ(result.rows, 2);
  EXPECT_EQ(result.problems[static_cast<size_t>(ConversationProblem::not_utf8)].lines, 2);
  EXPECT_THAT([&] { convert(std::string("{\0}", 3)); },
              ThrowsMessage<IoError>(HasSubstr("a zero byte at offset 1")));
}

TEST_F(ChatFiles, WithoutAnythingToLearnAreRefused) {
  EXPECT_THAT([&] { convert(""); }, ThrowsMessage<IoError>(HasSubstr("no row")));
  settings_.renderer = nullptr;
  EXPECT_THAT([&] { convert(chat("a", "b")); },
              ThrowsMessage<ConfigError>(HasSubstr("no chat template")));
  convert(R"({"prompt": "a", "completion": "b"})");
  EXPECT_THAT(rows(), ElementsAre("a[b]"));
  // Nothing predicts the first token of a row.
  const ChatFilesResult first = convert(
      "{\"prompt\": \"\", \"completion\": \"x\"}\n{\"prompt\": \"\", \"completion\": \"xy\"}");
  EXPECT_EQ(first.dropped, 1);
  EXPECT_THAT(rows(), ElementsAre("[xy]"));
}

TEST_F(ChatFiles, WithNoValidLineSayWhy) {
  EXPECT_THAT([&] { convert("\n"); }, ThrowsMessage<IoError>(HasSubstr("the input is empty")));
  settings_.skip_invalid = true;
  EXPECT_THAT([&] { convert("{\n"); },
              ThrowsMessage<IoError>(testing::AllOf(HasSubstr("1 line left out"),
                                                    HasSubstr("1 line: not a JSON object"),
                                                    HasSubstr("chat.jsonl:1"))));
}

const char* const kCall =
    R"("tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}]})";

TEST_F(ChatFiles, WithCallsThatDoNotShowAreRefusedOrCounted) {
  const std::string begin =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", )";
  const ChatRenderer shows = ChatRenderer::of_text(
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name "
      "}}{% endfor %}</s>{% endfor %}",
      "chat.jinja", {});
  const ChatRenderer hides =
      ChatRenderer::of_text("{% for m in messages %}{{ m.content }}</s>{% endfor %}", "x", {});
  settings_.renderer = &hides;
  EXPECT_THAT([&] { convert(begin + R"("content": null, )" + kCall); },
              ThrowsMessage<IoError>(testing::AllOf(
                  HasSubstr("1 line: an answer with tool calls that the template does not show"),
                  HasSubstr("chat.jsonl:1"), HasSubstr("message 2"))));
  // White space beside the calls is no answer either.
  for (const char* blank :
       {R"("content": " \n\u2003", )", R"("content": [{"type": "text", "text": "\n"}], )"}) {
    EXPECT_THAT([&] { convert(begin + blank + kCall); },
                ThrowsMessage<IoError>(HasSubstr("1 line: an answer with tool calls that")))
        << blank;
  }
  const ChatFilesResult beside = convert(begin + R"("content": "b", )" + kCall);
  EXPECT_EQ(beside.hidden_tools.lines, 1);
  EXPECT_THAT(beside.hidden_tools.first, HasSubstr("chat.jsonl:1: the tool calls of message 2"));
  const std::string tools = R"({"tools": [{"name": "f"}], )" + chat("a", "b").substr(1);
  EXPECT_THAT(convert(tools).hidden_tools.first, HasSubstr("the tools"));
  settings_.renderer = &shows;
  EXPECT_EQ(convert(begin + kCall).hidden_tools.lines, 0);
  EXPECT_THAT(rows(), ElementsAre("a</s>[f</s>]"));
}

TEST_F(ChatFiles, CountThoughtsAndDocumentsThatDoNotShow) {
  const std::string thought =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", )"
      R"("thinking": "hm"}, {"role": "user", "content": "c"}, )"
      R"({"role": "assistant", "content": "d"}]})";
  const std::string document = R"({"documents": [{"text": "x"}], )" + chat("a", "b").substr(1);
  const ChatFilesResult hidden = convert(thought + "\n" + document + "\n" + chat("a", "b"));
  EXPECT_EQ(hidden.hidden_context.lines, 2);
  EXPECT_THAT(hidden.hidden_context.first, HasSubstr("chat.jsonl:1: the reasoning of message 2"));
  EXPECT_THAT(convert(document).hidden_context.first, HasSubstr("the documents"));
  // Dropped later, but learned in a row of its own.
  const ChatRenderer shows = ChatRenderer::of_text(
      "{% for d in documents or [] %}{{ d.text }}{% endfor %}{% for m in messages %}{% if "
      "loop.last "
      "%}{{ m.reasoning_content }}{% endif %}{{ m.content }}</s>{% endfor %}",
      "x", {});
  settings_.renderer = &shows;
  EXPECT_EQ(convert(thought + "\n" + document).hidden_context.lines, 0);
}

TEST_F(ChatFiles, CountArgumentsThatAreEncodedTwice) {
  const ChatRenderer again = ChatRenderer::of_text(
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ "
      "c.function.arguments | tojson }}{% endfor %}</s>{% endfor %}",
      "x", {});
  const ChatRenderer asis = ChatRenderer::of_text(
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ "
      "c.function.arguments }}{% endfor %}</s>{% endfor %}",
      "x", {});
  const auto line = [](const std::string& arguments) {
    return R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": )"
           R"("b", "tool_calls": [{"function": {"name": "f", "arguments": )" +
           arguments + "}}]}]}";
  };
  const std::string text = line(R"("{\"x\": 1}")"), object = line(R"({"x": 1})");
  settings_.renderer = &again;
  const ChatFilesResult result = convert(object + "\n" + text);
  EXPECT_EQ(result.encoded_twice.lines, 1);
  EXPECT_THAT(result.encoded_twice.first, HasSubstr("chat.jsonl:2: message 2"));
  settings_.renderer = &asis;
  EXPECT_EQ(convert(text).encoded_twice.lines, 0);
}

// A template of texts would write a list out as Python does, and this would be learned.
TEST_F(ChatFiles, PartsOfTextAreATextWhereTheTemplateTakesTexts) {
  const std::string asks = "{% if add_generation_prompt %}{{ 'a:' }}{% endif %}";
  const ChatRenderer shows = ChatRenderer::of_text(
      "{% for m in messages %}{{ m.role[0] ~ ':' ~ (m.content | trim) ~ '</s>' }}{% endfor %}" +
          asks,
      "x", {});
  const ChatRenderer takes = ChatRenderer::of_text(
      "{% for m in messages %}{{ m.role[0] + ':' }}{% if m.content is string %}{{ m.content }}{% "
      "else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}</s>{% endfor %}" +
          asks,
      "x", {});
  const std::string lines =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
                                                    {"type": "text", "text": "'type': 'text'"}]},
                       {"role": "assistant", "content": [{"type": "text", "text": "b"}]}]})";
  std::string line = lines;
  std::erase(line, '\n');
  const std::string second = "\n" + chat("c", "d");
  for (const ChatRenderer* renderer : {&shows, &renderer_}) {  // kShort refuses lists
    settings_.renderer = renderer;
    const ChatFilesResult result = convert(line + second);
    EXPECT_THAT(rows(), ElementsAre("u:a\n'type': 'text'</s>a:[b</s>]", "u:c</s>a:[d</s>]"));
    EXPECT_EQ(result.joined_parts.lines, 1);
    EXPECT_THAT(result.joined_parts.first, HasSubstr("chat.jsonl:1: 2 messages"));
  }
  settings_.renderer = &takes;
  EXPECT_EQ(convert(line + second).joined_parts.lines, 0);
  EXPECT_EQ(rows().front(), "u:a'type': 'text'</s>a:[b</s>]");
}

TEST_F(ChatFiles, CountMessagesThatAskToBeLearnedInVain) {
  const std::string asks =
      R"({"messages": [{"role": "user", "content": "a", "train": true},
          {"role": "assistant", "content": "b", "train": true},
          {"role": "assistant", "content": "c", "weight": 1}]})";
  std::string line = asks;
  std::erase(line, '\n');
  const ChatFilesResult answers = convert(line + "\n" + chat("a", "b") + "\n" + line);
  EXPECT_EQ(answers.passed_over.lines, 2);
  EXPECT_THAT(answers.passed_over.first, HasSubstr("chat.jsonl:1: 1 such message"));
  settings_.train_on = TrainOn::last;
  EXPECT_THAT(convert(line).passed_over.first, HasSubstr("2 such messages"));
  settings_.train_on = TrainOn::all;
  EXPECT_EQ(convert(line).passed_over.lines, 0);
}

TEST_F(ChatFiles, KeepOutMessagesThatAreNotLearnedWhereControlTokensAreText) {
  settings_.train_on = TrainOn::all;
  settings_.control_tokens_as_text = true;
  convert(
      R"({"messages": [{"role": "user", "content": "a</s>"}, {"role": "assistant", "content": "b</s>", "weight": 0}, {"role": "user", "content": "c"}]})");
  EXPECT_THAT(rows(), ElementsAre("u[:a</s></s>a:]b</s></s>[u:c</s>]"));
}

TEST_F(ChatFiles, CountAnswersWithoutAnEndToken) {
  const ChatRenderer plain =
      ChatRenderer::of_text("{% for m in messages %}{{ m.content }};{% endfor %}", "x", {});
  EXPECT_EQ(convert(chat("a", "b")).open_answers, 0);
  settings_.renderer = &plain;
  EXPECT_EQ(convert(chat("a", "b")).open_answers, 1);
}

TEST_F(ChatFiles, LearnTheEndOfAPromptTemplate) {
  settings_.reading = {"{input}: {output}</s>\n", true, true};
  const std::string line = R"({"input": "a", "output": "b"})";
  const ChatFilesResult result = convert(line);
  EXPECT_THAT(rows(), ElementsAre("a: [b</s>]\n"));
  EXPECT_EQ(result.open_ends, 0);
  EXPECT_TRUE(result.control_tokens.empty());
  settings_.control_tokens_as_text = true;
  EXPECT_EQ(convert(R"({"input": "</s>", "output": "b"})").control_tokens.at("</s>"), 1);
  EXPECT_THAT(rows(), ElementsAre("</s>: [b</s>]\n"));
}

TEST_F(ChatFiles, KeepAnAnswerOfOneTokenToAnEmptyPromptForAnEncoder) {
  const std::string line = R"({"prompt": "", "completion": "b"})";
  EXPECT_THROW(convert(line), IoError);  // nothing predicts it
  settings_.completions_apart = true;
  convert(line);
  EXPECT_THAT(rows(), ElementsAre("[b]"));
}

TEST_F(ChatFiles, ForAnEncoderAreNotLearnedWhole) {
  settings_.train_on = TrainOn::all;
  const std::string line = R"({"prompt": "a", "completion": "b"})";
  EXPECT_EQ(convert(line).rows, 1);
  settings_.completions_apart = true;
  EXPECT_THAT([&] { convert(line); },
              ThrowsMessage<ConfigError>(HasSubstr("--train-on all: the tokenizer's model has an "
                                                   "encoder")));
}

TEST_F(ChatFiles, OfOtherKindsAreRefusedWithTheReason) {
  EXPECT_THAT([&] { convert("PAR1....", "x.parquet"); },
              ThrowsMessage<IoError>(HasSubstr("read_parquet")));
  EXPECT_THAT([&] { convert("\x93NUMPY....", "x.npy"); },
              ThrowsMessage<IoError>(HasSubstr("pickled Python objects")));
}

TEST_F(ChatFiles, NameControlTokensInMessages) {
  const std::string text = chat("a</s>", "b") + "\n";
  const ChatFilesResult result = convert(text);
  EXPECT_EQ(result.control_tokens, (ControlTokenCounts{{"</s>", 1}}));
  EXPECT_EQ(result.first_row.ids.size(), 9u);
  settings_.control_tokens_as_text = true;
  EXPECT_EQ(convert(text).first_row.ids.size(), 12u);
  EXPECT_THAT(rows(), ElementsAre("u:a</s></s>a:[b</s>]"));
}

}  // namespace
}  // namespace viaduct
