// `viaduct chat` and `viaduct generate --chat`, on a model with random weights.

#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/pseudo_terminal.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::test_data;

const char* const kChatMl =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class Chat : public testing::Test {
 protected:
  using Result = test::CommandResult;
  void SetUp() override {
    const std::filesystem::path model = test_data("golden/llama/model");
    std::filesystem::copy_file(model / "model.safetensors", folder_ / "model.safetensors");
    json config = json::parse(read_file(model / "config.json"));
    config["max_position_embeddings"] = 100'000;
    write_file_atomically(folder_ / "config.json", config.dump());
    write_file_atomically(folder_ / "text", "the cat and the hat and the rat");
    const Result trained = test::run_viaduct("tokenizer train --vocab-size 262 --input " + path() +
                                             "/text --output " + path());
    ASSERT_EQ(trained.status, 0) << trained.err;
    json tokens;
    for (const auto& [id, content] : {std::pair{"262", "<|im_start|>"}, {"263", "<|im_end|>"}})
      tokens[id] = {{"content", content}, {"special", true}};
    write_file_atomically(
        folder_ / "tokenizer_config.json",
        json{{"added_tokens_decoder", tokens}, {"chat_template", kChatMl}}.dump());
  }
  std::string path() const { return folder_.path().string(); }
  std::string command(const std::string& arguments) {
    return "chat --model " + path() + " dist.threads_per_rank=1 " + arguments;
  }
  Result chat(const std::string& arguments, const std::string& input) {
    return test::run_viaduct(command(arguments), input);
  }
  /// The lines of a chat that goes well.
  std::vector<json> answers(const std::string& arguments, const std::string& input) {
    const Result result = chat(arguments, input);
    EXPECT_EQ(result.status, 0) << result.err << result.out;
    return lines(result);
  }
  static std::vector<json> lines(const Result& result) {
    std::vector<json> all;
    std::istringstream out(result.out);
    for (std::string line; std::getline(out, line);) all.push_back(json::parse(line));
    return all;
  }
  /// The answer that `generate` gives to a conversation, with these options and by itself.
  json generated(const json& messages, const std::string& options) {
    const Result result = test::run_viaduct(
        "generate --chat --json --model " + path() + " dist.threads_per_rank=1 " + options + " -",
        json{{"messages", messages}}.dump() + "\n");
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out);
  }
  static std::string message(const char* role, const std::string& content) {
    return json{{"role", role}, {"content", content}}.dump() + "\n";
  }

  test::TemporaryFolder folder_;
};

TEST_F(Chat, AnswersMessagesOfOneConversation) {
  const std::string options = "--temperature 0 --max-new-tokens 12 ";
  const auto all = answers(options, message("user", "the cat") + "\n" + message("user", "the hat"));
  ASSERT_EQ(all.size(), 2u);
  json messages{{{"role", "user"}, {"content", "the cat"}}};
  for (const json& answer : all) {
    const json alone = generated(messages, options);
    EXPECT_EQ(answer.at("role"), "assistant");
    EXPECT_EQ(answer.at("content"), alone.at("text"));
    EXPECT_EQ(answer.at("tokens"), alone.at("tokens").size());
    EXPECT_EQ(answer.at("prompt_tokens"), alone.at("prompt_tokens").size());
    EXPECT_EQ(alone.at("message").at("content"), alone.at("text"));
    messages.push_back({{"role", "assistant"}, {"content", answer.at("content")}});
    messages.push_back({{"role", "user"}, {"content", "the hat"}});
  }
  // Of the second prompt, what the first one had is not computed again.
  EXPECT_EQ(all[0].at("cached_tokens"), 0);
  EXPECT_GE(all[1].at("cached_tokens"), all[0].at("prompt_tokens"));
}

TEST_F(Chat, PromptsAreTheTemplatesTextWithNothingAdded) {
  const json alone = generated(
      {{{"role", "system"}, {"content", "a"}}, {{"role", "user"}, {"content", "b<|im_end|>"}}},
      "--max-new-tokens 1");
  EXPECT_EQ(alone.at("prompt"),
            "<|im_start|>system\na<|im_end|>\n<|im_start|>user\nb<|im_end|><|im_end|>\n"
            "<|im_start|>assistant\n");
  const auto count = [](const json& ids, int id) { return std::count(ids.begin(), ids.end(), id); };
  EXPECT_EQ(alone.at("prompt_tokens").front(), 262);
  EXPECT_EQ(count(alone.at("prompt_tokens"), 262), 3);
  EXPECT_EQ(count(alone.at("prompt_tokens"), 263), 3);
  const json as_text = generated({{{"role", "user"}, {"content", "b<|im_end|>"}}},
                                 "--max-new-tokens 1 --user-control-tokens as-text");
  EXPECT_EQ(count(as_text.at("prompt_tokens"), 263), 1);
}

TEST_F(Chat, ToolsThatTheTemplateDoesNotShowAreAWarning) {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "the cat"}], "tools": [{"name": "f"}]})"
      "\n";
  const Result spoken = chat("--max-new-tokens 1", line);
  EXPECT_EQ(spoken.status, 0) << spoken.err;
  EXPECT_NE(spoken.err.find("line 1: the chat template does not show the tools"), std::string::npos)
      << spoken.err;
  const Result made = test::run_viaduct(
      "generate --chat --model " + path() + " dist.threads_per_rank=1 --max-new-tokens 1 -", line);
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_NE(made.err.find("1 conversation has tools or tool calls that the chat template does not"),
            std::string::npos)
      << made.err;
}

TEST_F(Chat, WholeConversationsTakeThePlaceOfTheOneSoFar) {
  const json conversation{{"id", 7}, {"messages", {{{"role", "user"}, {"content", "the rat"}}}}};
  const std::string options = "--temperature 0 --max-new-tokens 5 ";
  const auto all = answers(options, message("user", "the cat") + conversation.dump() + "\n" +
                                        message("assistant", "x") + message("user", "and"));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].at("id"), 7);
  EXPECT_EQ(all[1].at("content"), generated(conversation["messages"], options).at("text"));
  const json longer{{{"role", "user"}, {"content", "the rat"}},
                    {{"role", "assistant"}, {"content", all[1].at("content")}},
                    {{"role", "assistant"}, {"content", "x"}},
                    {{"role", "user"}, {"content", "and"}}};
  EXPECT_EQ(all[2].at("content"), generated(longer, options).at("text"));
}

TEST_F(Chat, TheSystemMessageComesFirst) {
  const std::string options = "--temperature 0 --max-new-tokens 5 ";
  const json messages{{{"role", "system"}, {"content", "the hat"}},
                      {{"role", "user"}, {"content", "and"}}};
  const json expected = generated(messages, options).at("text");
  EXPECT_EQ(answers(options + "--system 'the hat'", message("user", "and"))[0].at("content"),
            expected);
  const json without{{"messages", {messages[1]}}};
  EXPECT_EQ(answers(options + "--system 'the hat'", without.dump() + "\n")[0].at("content"),
            expected);
}

TEST_F(Chat, ALineInErrorDoesNotEndTheOthers) {
  const Result result =
      chat("--temperature 0 --max-new-tokens 3",
           "no json\n" + message("user", "a") + "{\"messages\": []}\n{\"text\": 1}\n" +
               json{{"role", "user"}, {"content", {{{"type", "image"}}}}}.dump() + "\n" +
               message("user", "b") + "{\"role\": \"user\", \"text\": \"c\", \"id\": 9}\n" +
               "{\"role\": \"user\", \"content\": \"\xff\"}\n" + "[1]\n");
  EXPECT_EQ(result.status, 1) << result.err;
  const auto all = lines(result);
  ASSERT_EQ(all.size(), 9u) << result.out;
  for (const size_t wrong : {0, 2, 3, 4, 6, 7, 8}) {
    EXPECT_NE(all[wrong].at("error").get<std::string>().find("line " + std::to_string(wrong + 1)),
              std::string::npos)
        << all[wrong];
  }
  EXPECT_TRUE(all[1].contains("content"));
  EXPECT_GT(all[5].at("cached_tokens"), 0);
  EXPECT_NE(all[6].at("error").get<std::string>().find("without \"content\""), std::string::npos);
  EXPECT_EQ(all[6].at("id"), 9);
  for (const size_t wrong : {0, 3, 7, 8}) {
    EXPECT_NE(all[wrong].at("error").get<std::string>().find("expected {\"role\", \"content\"}"),
              std::string::npos)
        << all[wrong];
  }
}

TEST_F(Chat, AnEmptyInputAndALastLineWithoutAnEndAreFine) {
  const Result nothing = chat("", "");
  EXPECT_EQ(nothing.status, 0) << nothing.err;
  EXPECT_EQ(nothing.out, "");
  std::string input = "\n  \n" + message("user", "the cat");
  input.pop_back();
  EXPECT_EQ(answers("--temperature 0 --max-new-tokens 3", input).size(), 1u);
}

TEST_F(Chat, ATerminalGoesOnAfterWhatIsRefused) {
  json config = json::parse(read_file(folder_ / "config.json"));
  config["max_position_embeddings"] = 64;
  write_file_atomically(folder_ / "config.json", config.dump());
  write_file_atomically(folder_ / "strict",
                        "{% for m in messages %}{% if 'bad' in m.content %}{{ raise_exception('no "
                        "bad words') }}{% endif %}{{ m.content }} {% endfor %}");
  test::PseudoTerminal terminal(
      test::viaduct_binary() + " " +
      command("--temperature 0 --max-new-tokens 3 --template " + path() + "/strict"));
  terminal.until("> ");
  const auto answer_to = [&](const std::string& line) {
    terminal.type(line + "\n");
    terminal.until("\r\n");
    return terminal.until("> ");
  };
  const auto expect = [&](const std::string& line, const char* text) {
    const std::string answer = answer_to(line);
    EXPECT_NE(answer.find(text), std::string::npos) << answer;
  };
  expect("bad", "no bad words; it is left out");
  expect("/system bad", "no bad words; nothing changes");
  expect("/system", "no system message");
  EXPECT_EQ(answer_to(" "), "> ") << "nothing is asked";
  expect(std::string(200, 'x'), "no room for an answer in the 64 positions of the model; it is");
  expect("/reset", "a new conversation");
  terminal.type("\\\n");
  terminal.until(". ");
  terminal.type("\n");
  terminal.until("> ");
  expect("/save " + path() + "/saved.jsonl", "0 messages");
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST_F(Chat, RanksGiveTheSameAnswers) {
  const std::string options = "--temperature 0 --max-new-tokens 8 ";
  const std::string input = message("user", "the cat") + message("user", "the hat");
  const auto one = answers(options, input);
  for (const char* layout :
       {"model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2"}) {
    const auto two = answers(options + "dist.ranks=2 " + layout, input);
    ASSERT_EQ(two.size(), one.size()) << layout;
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(two[i].at("content"), one[i].at("content")) << layout;
      EXPECT_EQ(two[i].at("cached_tokens"), one[i].at("cached_tokens")) << layout;
    }
  }
}

TEST_F(Chat, SaysWhenTheContextIsFull) {
  json config = json::parse(read_file(folder_ / "config.json"));
  config["max_position_embeddings"] = 48;
  write_file_atomically(folder_ / "config.json", config.dump());
  const Result result = chat("--temperature 0 --stop zzz",
                             message("user", "the cat and the hat") + message("user", "a"));
  const auto all = lines(result);
  ASSERT_EQ(all.size(), 2u) << result.err;
  EXPECT_EQ(all[0].at("stop_reason"), "context_full");
  EXPECT_NE(all[1].at("error").get<std::string>().find("48 positions"), std::string::npos);
  EXPECT_EQ(result.status, 1);
}

TEST_F(Chat, SamplesAsTheModelsFilesSay) {
  write_file_atomically(folder_ / "generation_config.json",
                        R"({"temperature": 0.6, "top_k": 20, "max_new_tokens": 4})");
  const Result result = chat("--top-p 0.9", message("user", "a"));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("temperature 0.6, top-k 20, top-p 0.9"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("generation_config.json"), std::string::npos) << result.err;
  EXPECT_LE(lines(result)[0].at("tokens"), 4);
  const std::string other = "--temperature 1 --top-k 0 --max-new-tokens 20 --seed ";
  EXPECT_EQ(answers(other + "5", message("user", "a"))[0].at("content"),
            answers(other + "5", message("user", "a"))[0].at("content"));
  EXPECT_NE(answers(other + "5", message("user", "a"))[0].at("content"),
            answers(other + "6", message("user", "a"))[0].at("content"));
}

TEST_F(Chat, SaysWhatIsWrong) {
  const auto expect = [&](const Result& result, int status, const char* text) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  };
  expect(chat("--image a.png", ""), 2, "reads no images");
  expect(chat("--adapter a --adapter b", ""), 2, "expected NAME=DIR for all but one of them");
  expect(chat("--adapter a=b --adapter a=c", ""), 2, "a names another adapter already");
  expect(chat("--adapter =b", ""), 2, "expected DIR, or NAME=DIR");
  expect(chat("--adapter no/such", ""), 2, "no/such");
  expect(chat("--temperature -1", ""), 2, "temperature");
  expect(chat("--max-new-tokens 0", ""), 2, "max-new-tokens");
  expect(chat("--user-control-tokens x", ""), 2, "user-control-tokens");
  expect(chat("--template no/such", ""), 2, "no/such");
  expect(chat("dist.ranks=2", ""), 2, "2 replicas");
  expect(chat("model.num_layers=3", ""), 2, "does not read model.num_layers");
  expect(test::run_command("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 " +
                               test::viaduct_binary() + " " + command(""),
                           ""),
         2, "one process");
  write_file_atomically(folder_ / "refuses", "{{ raise_exception('no system messages') }}");
  expect(chat("--system a --template " + path() + "/refuses", ""), 2, "no system messages");
  write_file_atomically(folder_ / "broken", "{% if %}");
  expect(chat("--template " + path() + "/broken", ""), 2, "broken");
  expect(test::run_viaduct("generate --model " + path() + " --prompt x --template y"), 2, "--chat");
  write_file_atomically(folder_ / "answered.jsonl",
                        "{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}\n{}\n");
  const Result both = test::run_viaduct("generate --chat --model " + path() + " --prompt-file " +
                                        path() + "/answered.jsonl");
  expect(both, 2, "line 1");
  expect(both, 2, "line 2");
  write_file_atomically(folder_ / "tokenizer_config.json", "{}");
  expect(chat("", ""), 2, "chat_template.jinja");
  expect(chat("", ""), 2, "--template FILE");
}

TEST_F(Chat, GeneratesAnswersToManyConversations) {
  std::string input, plain;
  std::vector<json> alone;
  const std::string options = "--temperature 0 --max-new-tokens 6 ";
  for (const char* text : {"the cat and the hat", "a", "the rat and"}) {
    const json messages{{{"role", "user"}, {"content", text}}};
    input += json{{"messages", messages}, {"id", std::string("of ") + text}}.dump() + "\n";
    plain += std::string(plain.empty() ? "" : " ") + "'" + text + "'";
    alone.push_back(generated(messages, options));
  }
  write_file_atomically(folder_ / "chats.jsonl", input);
  const std::string common = "generate --chat --model " + path() + " " + options;
  for (const std::string& source :
       {" --prompt-file " + path() + "/chats.jsonl dist.ranks=2",
        " --prompt-file " + path() + "/chats.jsonl dist.ranks=2 model.tensor_model_parallel_size=2",
        " --prompt " + plain + " dist.ranks=1"}) {
    const Result result = test::run_viaduct(common + "--json" + source);
    ASSERT_EQ(result.status, 0) << result.err;
    const auto all = lines(result);
    ASSERT_EQ(all.size(), alone.size());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].at("text"), alone[i].at("text")) << source;
      EXPECT_EQ(all[i].at("prompt_tokens"), alone[i].at("prompt_tokens")) << source;
      EXPECT_EQ(all[i].contains("id"), source.find("jsonl") != std::string::npos);
    }
  }
  const Result text = test::run_viaduct(common + "--prompt a");
  EXPECT_EQ(text.out, alone[1].at("text").get<std::string>() + "\n");
}

TEST_F(Chat, TalksInATerminal) {
  test::PseudoTerminal terminal(test::viaduct_binary() + " " +
                                command("--temperature 0 --max-new-tokens 10"));
  const std::string greeting = terminal.until("> ");
  EXPECT_NE(greeting.find("greedy"), std::string::npos) << greeting;
  terminal.type("/help\n");
  EXPECT_NE(terminal.until("> ").find("/reset"), std::string::npos);
  terminal.type("/system the hat\n");
  terminal.until("> ");
  terminal.type("the cat\n");
  terminal.until("the cat\r\n");
  const std::string answer = terminal.until("> ");
  EXPECT_GT(answer.size(), 4u) << answer;
  terminal.type("and\\\n");
  terminal.until(". ");
  terminal.type("the rat\n");
  terminal.until("> ");
  terminal.type("/nonsense\n");
  EXPECT_NE(terminal.until("> ").find("no command /nonsense"), std::string::npos);
  terminal.type("/save " + path() + "/saved.jsonl\n");
  terminal.until("> ");
  const json saved = json::parse(read_file(folder_ / "saved.jsonl"));
  const json& messages = saved.at("messages");
  ASSERT_EQ(messages.size(), 5u) << saved;
  EXPECT_EQ(messages[0], (json{{"role", "system"}, {"content", "the hat"}}));
  EXPECT_EQ(messages[1], (json{{"role", "user"}, {"content", "the cat"}}));
  EXPECT_EQ(messages[2].at("role"), "assistant");
  EXPECT_EQ(messages[3].at("content"), "and\nthe rat");
  EXPECT_EQ(
      messages[2].at("content"),
      generated({messages[0], messages[1]}, "--temperature 0 --max-new-tokens 10 ").at("text"));
  terminal.type("/reset\n");
  terminal.until("> ");
  terminal.type("/save " + path() + "/saved.jsonl\n");  // of this chat: replaced
  EXPECT_NE(terminal.until("> ").find("1 message"), std::string::npos);
  terminal.type("/save " + path() + "/config.json\n");
  EXPECT_NE(terminal.until("> ").find("exists"), std::string::npos);
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST_F(Chat, CtrlCStopsAnAnswerAndThenLeaves) {
  // A model without a token that ends a text, so the answer ends by Ctrl-C alone.
  json config = json::parse(read_file(folder_ / "config.json"));
  config.erase("eos_token_id");
  write_file_atomically(folder_ / "config.json", config.dump());
  std::string tokenizer = read_file(folder_ / "tokenizer.json");
  const std::string end = "<|endoftext|>";
  for (size_t at = tokenizer.find(end); at != tokenizer.npos; at = tokenizer.find(end))
    tokenizer.replace(at, end.size(), "<|nothing|>");
  write_file_atomically(folder_ / "tokenizer.json", tokenizer);
  write_file_atomically(folder_ / "endless", "{% for m in messages %}{{ m.content }} {% endfor %}");
  test::PseudoTerminal terminal(
      test::viaduct_binary() + " " +
      command("--template " + path() + "/endless --seed 3 --max-new-tokens 90000"));
  terminal.until("> ");
  terminal.type("the cat\n");
  terminal.until("the cat\r\n");
  terminal.until_bytes(20);
  terminal.type("\x03");
  EXPECT_NE(terminal.until("> ").find("(stopped"), std::string::npos);
  // The conversation goes on.
  terminal.type("/save " + path() + "/saved.jsonl\n");
  EXPECT_NE(terminal.until("> ").find("2 messages"), std::string::npos);
  terminal.type("\x03");
  EXPECT_NE(terminal.until("once more").find("once more"), std::string::npos);
  terminal.until("> ");
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 0);
}

}  // namespace
}  // namespace viaduct
