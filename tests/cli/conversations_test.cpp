// `viaduct tokenizer chat`, `data chat` and `data inspect --text` as scripts use them.

#include <gmock/gmock.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/output_file.h"
#include "support/chat_tokenizer.h"
#include "support/command.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const char* const kChat =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]})"
    "\n";

class ConversationCommands : public testing::Test {
 protected:
  using Result = test::CommandResult;
  ConversationCommands() { test::write_chat_model(folder_ / "model", test::kChatMl); }

  Result run(const std::string& arguments, std::string_view input = "") {
    return test::run_viaduct(arguments, input);
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::string model() const { return " --tokenizer " + path("model") + " "; }

  test::TemporaryFolder folder_;
};

TEST_F(ConversationCommands, TokenizerChatGivesTextIdsAndMask) {
  const Result result = run("tokenizer chat" + model(), kChat);
  ASSERT_EQ(result.status, 0) << result.err;
  const json line = json::parse(result.out);
  EXPECT_EQ(line["text"], "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n");
  ASSERT_EQ(line["ids"].size(), line["mask"].size());
  std::string mask;
  for (const json& learned : line["mask"]) mask += std::to_string(learned.get<int>());
  EXPECT_EQ(mask,
            "000000"
            "0000"
            "00000000000"
            "111"
            "0");
}

TEST_F(ConversationCommands, TokenizerChatGoesOnAfterALineInError) {
  write_file_atomically(path("chat.jinja"),
                        "{{ bos_token }}{{ who }}{{ strftime_now('%d %b %Y') "
                        "}}{{ messages[0].content }}{% if tools %}T{% endif "
                        "%}{% if add_generation_prompt %}>{% endif %}");
  const Result result =
      run("tokenizer chat --template " + path("chat.jinja") +
              " --special '{\"bos_token\": \"<b>\"}' --now 2026-02-03T04:05:06",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"who\": \"me\", \"tools\": "
          "[{}], \"add_generation_prompt\": true}\n"
          "{\"messages\": []}\n"
          "{\"messages\": [{\"role\": \"user\", \"content\": \"\\u2028\"}]}\n");
  EXPECT_EQ(result.status, 1);
  std::istringstream lines(result.out);
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  std::getline(lines, third);
  EXPECT_EQ(first, R"({"text":"<b>me03 Feb 2026xT>"})");
  EXPECT_THAT(second, HasSubstr("{\"error\":\""));
  EXPECT_EQ(third, R"({"text":"<b>03 Feb 2026\u2028"})");
}

TEST_F(ConversationCommands, TokenizerChatNeedsATemplate) {
  EXPECT_EQ(run("tokenizer chat").status, 2);
  EXPECT_EQ(run("tokenizer chat --now yesterday" + model()).status, 2);
  std::filesystem::remove(folder_ / "model" / "tokenizer_config.json");
  const Result none = run("tokenizer chat" + model(), kChat);
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no chat template"));
}

TEST_F(ConversationCommands, DataChatWritesAndInspectShowsRows) {
  write_file_atomically(path("chat.jsonl"), std::string(kChat) + kChat);
  const Result made = run("data chat --input " + path("chat.jsonl") + model() + "--output " +
                          path("out/chats") + " --workers 2");
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("2 conversations, 2 rows"));
  EXPECT_THAT(made.out, HasSubstr("% of them learned"));
  EXPECT_THAT(made.out, HasSubstr("[Yo<|im_end|>]"));
  const json record = json::parse(read_file(path("out/chats.tokens.json")));
  EXPECT_TRUE(record["separator"].is_null());
  EXPECT_EQ(record["conversations"]["train_on"], "assistant");
  const Result shown =
      run("data inspect " + path("out/chats") + " --text" + model() + "--rows 1:2");
  EXPECT_EQ(shown.out,
            "row 1: 25 tokens, 3 learned\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "[Yo<|im_end|>]\n\n");
  EXPECT_THAT(run("data inspect " + path("out/chats")).out, HasSubstr("learned    12.0 %"));
  EXPECT_DOUBLE_EQ(
      json::parse(run("data inspect " + path("out/chats") + " --json").out)["learned_share"],
      3.0 / 25);
  const Result other = run("data inspect " + path("out/chats") + " --text --tokenizer " +
                           test::test_data("tokenizer/bpe_shakespeare").string());
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("another tokenizer"));
  EXPECT_EQ(run("data inspect " + path("out/chats") + " --rows 1:2").status, 2);
  EXPECT_EQ(run("data inspect " + path("out/chats") + " --text" + model() + "--rows 2:9").status,
            2);
  // What is there is not replaced.
  EXPECT_EQ(
      run("data chat --input " + path("chat.jsonl") + model() + "--output " + path("out/chats"))
          .status,
      2);
}

TEST_F(ConversationCommands, DataChatReadsPicturesOfAModelThatTakesThem) {
  json tokenizer = json::parse(read_file(path("model/tokenizer.json")));
  tokenizer["added_tokens"].push_back(
      {{"id", 103}, {"content", "<image>"}, {"special", true}, {"normalized", false}});
  write_file_atomically(path("model/tokenizer.json"), test::whole_tokenizer(tokenizer).dump());
  std::filesystem::copy_file(test::test_data("images/noise.png"), path("noise.png"));
  write_file_atomically(
      path("chat.jsonl"),
      R"({"image": "noise.png", "conversations": [{"from": "human", "value": "<image>\nHi"}, {"from": "gpt", "value": "Yo"}]})"
      "\n");
  const std::string command = "data chat --input " + path("chat.jsonl") + model() + "--output ";
  const Result refused = run(command + path("out"));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("the model of the tokenizer takes none"));
  write_file_atomically(path("model/config.json"),
                        R"({"model_type": "llava", "image_token_index": 103, "vision_config":
                            {"model_type": "clip_vision_model", "image_size": 28,
                             "patch_size": 14}})");
  write_file_atomically(path("model/preprocessor_config.json"),
                        R"({"image_processor_type": "CLIPImageProcessor", "crop_size": 14})");
  const Result other_size = run(command + path("out"));
  EXPECT_EQ(other_size.status, 2);
  EXPECT_THAT(other_size.err, HasSubstr("pictures of 14 pixels a side"));
  write_file_atomically(path("model/preprocessor_config.json"),
                        R"({"image_processor_type": "CLIPImageProcessor", "crop_size": 28})");
  const Result made = run(command + path("out"));
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("out.images.jsonl: 1 place of 1 picture in the rows"));
  EXPECT_THAT(made.out, HasSubstr("<image><image><image><image>\nHi"));
  EXPECT_THAT(run("data inspect " + path("out")).out, HasSubstr("pictures   1 place in the rows"));
  const Result samples = run("data samples 'dataset.blend=[" + path("out") +
                             "]' dataset.split=1,0,0 dataset.packed_sequence_size=64 --split train "
                             "--num-samples null,null,null");
  EXPECT_EQ(samples.status, 0) << samples.err;
}

TEST_F(ConversationCommands, AModelThatTakesPicturesTrainsOnThem) {
  json tokenizer = json::parse(read_file(path("model/tokenizer.json")));
  tokenizer["added_tokens"].push_back(
      {{"id", 103}, {"content", "<image>"}, {"special", true}, {"normalized", false}});
  write_file_atomically(path("model/tokenizer.json"), test::whole_tokenizer(tokenizer).dump());
  write_file_atomically(path("model/preprocessor_config.json"),
                        R"({"image_processor_type": "CLIPImageProcessor", "size": 12,
                            "crop_size": 12})");
  json config =
      json::parse(read_file(test::test_data("golden") / "llava_clip" / "model" / "config.json"));
  config["image_token_index"] = 103;
  config["text_config"]["vocab_size"] = 104;
  write_file_atomically(path("model/config.json"), config.dump());
  std::filesystem::copy_file(test::test_data("images/noise.png"), path("noise.png"));
  write_file_atomically(
      path("chat.jsonl"),
      R"({"image": "noise.png", "conversations": [{"from": "human", "value": "<image>\nHi"}, {"from": "gpt", "value": "Yo"}]})"
      "\n");
  const Result made =
      run("data chat --input " + path("chat.jsonl") + model() + "--output " + path("out"));
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string settings = "model.hf_config=" + path("model") +
                               " tokenizer.tokenizer_model=" + path("model") +
                               " 'dataset.blend=[1.0," + path("out") +
                               "]' dataset.split=1,0,0 model.seq_length=48 mixed_precision=fp32 "
                               "train.train_iters=2 train.global_batch_size=1 "
                               "train.micro_batch_size=1 validation.eval_iters=0 "
                               "dist.threads_per_rank=1 ";
  const Result trained = run("train " + settings + "checkpoint.save=" + path("run"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  // The run's folder has the processor's settings too.
  const Result scored = run("eval --model " + path("run") + " --data " + path("out") + " --json");
  ASSERT_EQ(scored.status, 0) << scored.err;
  EXPECT_EQ(json::parse(scored.out)["tokens"], 3);
  const std::string asked = " --max-new-tokens 2 --temperature 0 dist.threads_per_rank=1 ";
  const Result answered = run("generate --chat --model " + path("run") + " --prompt Hi --image " +
                              path("noise.png") + " --json" + asked);
  ASSERT_EQ(answered.status, 0) << answered.err;
  const json prompt = json::parse(answered.out)["prompt_tokens"];
  EXPECT_EQ(std::ranges::count(prompt, json(103)), 4);
  const std::string line = R"({"role": "user", "content": [{"type": "image", "path": ")" +
                           path("noise.png") + R"("}, {"type": "text", "text": "Hi"}]})" + "\n";
  const Result said = run("chat --model " + path("run") + asked + "model.read_images=true", line);
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(json::parse(said.out)["prompt_tokens"], prompt.size());
  EXPECT_THAT(run("chat --model " + path("run") + asked, line).out,
              HasSubstr("texts alone are answered"));
  const Result two = run("generate --chat --model " + path("run") + " --prompt Hi --image " +
                         path("noise.png") + " b.png");
  EXPECT_EQ(two.status, 2);
  EXPECT_THAT(two.err, HasSubstr("--image takes one file and is repeated"));
  const Result text = run("train " + settings + "model.read_images=false");
  EXPECT_EQ(text.status, 2);
  EXPECT_THAT(text.err, HasSubstr("and the model reads none"));
  for (const char* ending : {".idx", ".bin", ".jsonl"})
    std::filesystem::remove(path("out.images") + ending);
  const Result lost = run("eval --model " + path("run") + " --data " + path("out"));
  EXPECT_EQ(lost.status, 2);
  EXPECT_THAT(lost.err, HasSubstr("its rows have 1 place of a picture"));
  const Result blind = run("train " + settings);
  EXPECT_EQ(blind.status, 2);
  EXPECT_THAT(blind.err, HasSubstr("its rows have 1 place of a picture"));
}

TEST_F(ConversationCommands, DataTokenizeWarnsOfTheTokenOfImages) {
  json tokenizer = json::parse(read_file(path("model/tokenizer.json")));
  tokenizer["added_tokens"].push_back(
      {{"id", 103}, {"content", "<image>"}, {"special", true}, {"normalized", false}});
  write_file_atomically(path("model/tokenizer.json"), test::whole_tokenizer(tokenizer).dump());
  write_file_atomically(path("text.txt"), "Hi <image>");
  const std::string command = "data tokenize --no-append-eod --overwrite --input " +
                              path("text.txt") + model() + "--output " + path("text");
  const Result of_texts = run(command);
  ASSERT_EQ(of_texts.status, 0) << of_texts.err;
  EXPECT_THAT(of_texts.err, testing::Not(HasSubstr("token of images")));
  write_file_atomically(path("model/config.json"),
                        R"({"model_type": "llava", "image_token_index": 103, "vision_config":
                            {"model_type": "clip_vision_model", "image_size": 28,
                             "patch_size": 14}})");
  const Result warned = run(command);
  EXPECT_EQ(warned.status, 0);
  EXPECT_THAT(warned.err, HasSubstr("1 document spells the token of images, <image> (103)"));
}

TEST_F(ConversationCommands, DataChatShowsTheBeginningOfALongRow) {
  const std::string answer(50000, 'y');
  const Result made = run("data chat --input -" + model() + "--output " + path("long"),
                          R"({"prompt": "a", "completion": ")" + answer + "\"}\n");
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("yyy] …\n"));
  EXPECT_LT(made.out.size(), 3000u);
}

TEST_F(ConversationCommands, DataChatReadsStandardInput) {
  const Result made =
      run("data chat --input - --train-on all" + model() + "--output " + path("all"), kChat);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("<|im_start|>[user"));
}

TEST_F(ConversationCommands, DataChatCountsWhatCannotBeLearnedFrom) {
  write_file_atomically(
      path("bad.jsonl"),
      std::string(
          R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})") +
          "\n" + R"({"conversations": [{"from": "human", "value": "caf)" + "\xe9" +
          R"("}, {"from": "gpt", "value": "b"}]})" + "\n" +
          R"({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", "value": "b"}]})" +
          "\n");
  const std::string command =
      "data chat --input " + path("bad.jsonl") + model() + "--output " + path("bad");
  const Result refused = run(command);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("2 conversations cannot be learned from"));
  EXPECT_THAT(refused.err, HasSubstr("1 line: not UTF-8"));
  EXPECT_THAT(refused.err, HasSubstr("bad.jsonl:2"));
  EXPECT_THAT(refused.err, HasSubstr("1 line: an unknown role"));
  EXPECT_THAT(refused.err, HasSubstr("bad.jsonl:3"));
  const Result skipped = run(command + " --invalid skip");
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_THAT(skipped.out, HasSubstr("1 conversation, 1 row"));
}

TEST_F(ConversationCommands, DataChatCutsAtQuestions) {
  const std::string line =
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "one"},
          {"role": "assistant", "content": "1"}, {"role": "user", "content": "two"},
          {"role": "assistant", "content": "2"}]})";
  std::string one_line = line;
  std::erase(one_line, '\n');
  const auto cut = [&](int length) {
    return run("data chat --input - --overwrite --overlong truncate_start --max-length " +
                   std::to_string(length) + model() + "--output " + path("cut"),
               one_line + "\n");
  };
  const Result made = cut(60);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("1 row longer than 60 tokens: cut"));
  EXPECT_THAT(made.out, HasSubstr("<|im_start|>system\nS<|im_end|>\n<|im_start|>user\ntwo<|im_end|>"
                                  "\n<|im_start|>assistant\n[2<|im_end|>]"));
  const Result none = cut(20);
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("whose last answer and its question do not fit into 20 tokens"));
}

TEST_F(ConversationCommands, DataChatAddsNothingToTextsOfPromptAndCompletion) {
  const Result open = run("data chat --input -" + model() + "--output " + path("open"),
                          R"({"prompt": "a", "completion": "b"})"
                          "\n");
  ASSERT_EQ(open.status, 0) << open.err;
  EXPECT_THAT(open.out, HasSubstr("a[b]"));
  EXPECT_THAT(open.err, HasSubstr("1 completion does not end with a special token"));
  const Result ended = run("data chat --input -" + model() + "--output " + path("ended"),
                           R"({"prompt": "a", "completion": "b<|im_end|>"})"
                           "\n");
  EXPECT_THAT(ended.out, HasSubstr("a[b<|im_end|>]"));
  EXPECT_THAT(ended.err, testing::Not(HasSubstr("special token")));
}

TEST_F(ConversationCommands, DataChatWarnsOfToolsAndEndsThatDoNotShow) {
  write_file_atomically(path("plain.jinja"), "{% for m in messages %}{{ m.content }};{% endfor %}");
  const Result made = run("data chat --input - --template " + path("plain.jinja") + model() +
                              "--output " + path("tools"),
                          R"({"tools": [{"name": "f"}], )" + std::string(kChat).substr(1));
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("1 conversation has tools or tool calls that the template does "
                                  "not show"));
  EXPECT_THAT(made.err, HasSubstr("1 answer does not end with a special token"));
}

TEST_F(ConversationCommands, DataChatSaysWhichMessagesAskInVain) {
  std::string asks = kChat;
  asks.replace(asks.find("\"Hi\""), 4, R"("Hi", "train": true)");
  const Result made = run("data chat --input -" + model() + "--output " + path("asks"), asks);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("1 conversation has messages that say \"train\": true or "
                                  "\"weight\": 1 and are not learned: --train-on assistant"));
}

TEST_F(ConversationCommands, DataChatWarnsOfWhatAModelSeesOtherwise) {
  write_file_atomically(path("calls.jinja"),
                        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
                        "{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>{% endfor %}");
  const std::string line =
      R"({"messages": [{"role": "user", "content": "a<|im_end|>"}, {"role": "assistant", )"
      R"("content": "b", "reasoning_content": "hm", "tool_calls": [{"type": "function", )"
      R"("function": {"name": "f", "arguments": "{\"x\": 1}"}}]}]})"
      "\n";
  const std::string command = "data chat --input - --overwrite --template " + path("calls.jinja") +
                              model() + "--output " + path("calls");
  const Result made = run(command, line);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("control tokens in the text of messages: <|im_end|> 1 time; "
                                  "they are encoded as control tokens"));
  EXPECT_THAT(made.err, HasSubstr("1 conversation has thoughts (reasoning_content, thinking) or "
                                  "documents that the template does not show"));
  EXPECT_THAT(made.err, HasSubstr("1 conversation has calls whose arguments are JSON as a text"));
  EXPECT_THAT(run(command + " --user-control-tokens as-text", line).err,
              HasSubstr("they are encoded as plain text"));
}

TEST_F(ConversationCommands, DataChatSaysWhatBecomesOfRows) {
  write_file_atomically(path("short.jinja"),
                        "{% for m in messages %}{{ m.role }}:{% if loop.last or m.role == 'user' "
                        "%}{{ m.content }}{% else %}-{% endif %}<|im_end|>{% endfor %}");
  const std::string turn = R"({"role": "user", "content": "a"}, {"role": "assistant", "content": )";
  const Result own = run(
      "data chat --input - --template " + path("short.jinja") + model() + "--output " + path("own"),
      R"({"messages": [)" + turn + R"("b"}, )" + turn + R"("c"}]})" + "\n");
  ASSERT_EQ(own.status, 0) << own.err;
  EXPECT_THAT(own.out, HasSubstr("1 conversation, 2 rows"));
  EXPECT_THAT(own.out, HasSubstr("1 row of a single answer, with what is before it"));
  std::string long_one = kChat;
  long_one.replace(long_one.find("Hi"), 2, std::string(40, 'h') + "\u00fc");
  const std::string command = "data chat --input - --overwrite" + model() + "--output " +
                              path("rows") + " --max-length 25 --overlong ";
  const Result dropped = run(command + "drop", kChat + long_one);
  ASSERT_EQ(dropped.status, 0) << dropped.err;
  EXPECT_THAT(dropped.out, HasSubstr("2 conversations, 1 row"));
  EXPECT_THAT(dropped.out, HasSubstr("the longest row has 25 tokens\n"));
  EXPECT_THAT(dropped.out, HasSubstr("1 row longer than 25 tokens: dropped (the longest had 64)"));
  EXPECT_THAT(dropped.err, HasSubstr("1 byte without a token in this vocabulary: "));
  const Result cut = run(command + "truncate_end", kChat + long_one);
  ASSERT_EQ(cut.status, 0) << cut.err;
  EXPECT_THAT(cut.out, HasSubstr("1 row longer than 25 tokens: cut"));
  EXPECT_THAT(cut.out, HasSubstr("1 row without a learned token: dropped"));
}

TEST_F(ConversationCommands, EmptyValuesDoNotPassForOptionsThatAreNotGiven) {
  const std::string data = "data chat --input -" + model() + "--output " + path("empty");
  for (const auto& [command, option] :
       {std::pair{data, "--template"}, std::pair{data, "--prompt-template"},
        std::pair{data, "--now"}, std::pair{"tokenizer chat" + model(), "--special"},
        std::pair{"chat --model " + path("model"), "--system"},
        std::pair{"generate --model " + path("model"), "--prompt-file"},
        std::pair{"eval --model " + path("model"), "--tasks"}}) {
    const Result result = run(command + " " + option + " ''", kChat);
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_THAT(result.err, HasSubstr(option + std::string(": expected a value, found \"\"")));
  }
  EXPECT_FALSE(std::filesystem::exists(path("empty.bin")));
}

TEST_F(ConversationCommands, DataChatRefusesWhatItCannotUse) {
  write_file_atomically(path("bad.jsonl"), std::string(kChat) + "{}\n");
  const std::string input =
      "data chat --input " + path("bad.jsonl") + model() + "--output " + path("bad");
  const Result refused = run(input);
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("bad.jsonl:2"));
  EXPECT_FALSE(std::filesystem::exists(path("bad.bin")));
  const Result skipped = run(input + " --invalid skip");
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("1 line left out"));
  EXPECT_EQ(run(input + " --overlong drop").status, 2);
  EXPECT_EQ(run(input + " --prompt-template '{input}'").status, 2);
  EXPECT_EQ(run(input + " --overwrite --train-on completion").status, 2);
}

}  // namespace
}  // namespace viaduct
