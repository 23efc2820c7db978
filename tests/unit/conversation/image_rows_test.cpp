// Chat files with pictures: rows with all tokens of each picture, none of them learned, and the
// pictures of each row beside the data set.

#include <gmock/gmock.h>

#include <array>

#include "base/file.h"
#include "base/json.h"
#include "base/output_file.h"
#include "conversation/chat_files.h"
#include "data/dataset_files.h"
#include "data/image_files.h"
#include "data/indexed_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "data/token_record.h"
#include "image/image_index.h"
#include "support/chat_tokenizer.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// As LLaVA's: contents are lists of parts.
const char* const kParts =
    "{% for m in messages %}{{ m.role[0] + ':' }}{% for c in m.content %}{% if c.type == 'image' "
    "%}{{ '<image>\\n' }}{% else %}{{ c.text }}{% endif %}{% endfor %}{{ '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a:' }}{% endif %}";
/// Contents are texts.
const char* const kTexts =
    "{% for m in messages %}{{ m.role[0] + ':' + m.content + '</s>' }}{% endfor %}{% if "
    "add_generation_prompt %}{{ 'a:' }}{% endif %}";
/// As Gemma 3's: either, and a mark for a picture.
const char* const kMarks =
    "{% for m in messages %}{{ m.role[0] + ':' }}{% if m.content is string %}{{ m.content }}{% "
    "else "
    "%}{% for c in m.content %}{% if c.type == 'image' %}{{ '<boi>' }}{% else %}{{ c.text }}{% "
    "endif %}{% endfor %}{% endif %}{{ '</s>' }}{% endfor %}{% if add_generation_prompt %}{{ 'a:' "
    "}}{% endif %}";

const char* const kLlava = R"({"model_type": "llava", "image_token_index": 103,
    "vision_config": {"model_type": "clip_vision_model", "image_size": 28, "patch_size": 14}})";
const char* const kGemma3 = R"({"model_type": "gemma3", "image_token_index": 103,
    "boi_token_index": 104, "eoi_token_index": 105, "mm_tokens_per_image": 2,
    "vision_config": {"image_size": 28}})";

/// The tokenizer of the other tests with <image> (103), <boi> and <eoi>.
Tokenizer image_tokenizer(const std::filesystem::path& folder) {
  test::write_chat_model(folder, kTexts);
  json text = json::parse(read_file(folder / "tokenizer.json"));
  int id = 103;
  for (const char* token : {"<image>", "<boi>", "<eoi>"}) {
    text["added_tokens"].push_back(
        {{"id", id++}, {"content", token}, {"special", true}, {"normalized", false}});
  }
  return parse_tokenizer(test::whole_tokenizer(text).dump());
}

ImageTokens tokens_of(const char* config, const Tokenizer& tokenizer) {
  return *image_tokens(json::parse(config), "config.json", tokenizer.added_tokens());
}

class ImageRows : public testing::Test {
 protected:
  ImageRows() : tokenizer_(image_tokenizer(folder_ / "model")) {
    settings_.tokenizer = &tokenizer_;
    settings_.type = TokenType::uint16;
    settings_.output = folder_ / "out";
    std::filesystem::create_directories(folder_ / "p");
    for (const char* name : {"noise.png", "rgb.jpg"})
      write_file_atomically(folder_ / "p" / name, read_file(test::test_data("images") / name));
  }

  ChatFilesResult convert(const std::string& text, const char* chat_template = kParts,
                          const char* config = kLlava) {
    write_file_atomically(folder_ / "chat.jsonl", text);
    settings_.inputs = {folder_ / "chat.jsonl"};
    renderer_.emplace(ChatRenderer::of_text(chat_template, "chat.jinja", {}));
    settings_.renderer = &*renderer_;
    places_.emplace(tokens_of(config, tokenizer_), settings_.renderer, RenderOptions{});
    settings_.images = &*places_;
    settings_.reading.images = true;
    return convert_chat_files(settings_);
  }
  /// The rows, what is learned in brackets.
  std::vector<std::string> rows() const {
    const IndexedDataset tokens(settings_.output), mask(settings_.output.string() + ".mask");
    std::vector<std::string> result;
    for (int64_t i = 0; i < tokens.sequence_count(); ++i) {
      const auto length = static_cast<size_t>(tokens.sequence_length(i));
      ChatRow row;
      row.ids.resize(length);
      std::vector<int32_t> learned(length);
      tokens.read(i, 0, std::span<int32_t>(row.ids));
      mask.read(i, 0, std::span<int32_t>(learned));
      row.mask.assign(learned.begin(), learned.end());
      result.push_back(test::bracketed(tokenizer_, row));
    }
    return result;
  }
  std::vector<std::string> pictures(int64_t row) const {
    const ImageIndex index(settings_.output.string(),
                           IndexedDataset(settings_.output).sequence_count());
    std::vector<std::string> names;
    for (const PictureFile& picture : index.row(row))
      names.push_back(std::filesystem::path(picture.path).filename().string());
    return names;
  }

  test::TemporaryFolder folder_;
  const Tokenizer tokenizer_;
  std::optional<ChatRenderer> renderer_;
  std::optional<ImagePlaces> places_;
  ChatFilesSettings settings_;
};

const char* const kTwo =
    R"({"images": ["p/noise.png", "p/rgb.jpg"], "messages": [
        {"role": "user", "content": "<image>\nA<image>\n"}, {"role": "assistant", "content": "B"}]})";
const char* const kNone =
    R"({"messages": [{"role": "user", "content": "C"}, {"role": "assistant", "content": "D"}]})";

std::string line(std::string text) {
  std::erase(text, '\n');
  return text + "\n";
}

TEST_F(ImageRows, HaveAllTokensOfEachPicture) {
  const ChatFilesResult result = convert(line(kTwo) + line(kNone));
  EXPECT_THAT(rows(), ElementsAre("u:<image><image><image><image>\nA<image><image><image><image>\n"
                                  "</s>a:[B</s>]",
                                  "u:C</s>a:[D</s>]"));
  EXPECT_THAT(pictures(0), ElementsAre("noise.png", "rgb.jpg"));
  EXPECT_THAT(pictures(1), ElementsAre());
  EXPECT_EQ(result.images, 2);
  EXPECT_EQ(result.pictures, 2);
  const ImageIndex index(settings_.output.string(), 2);
  EXPECT_EQ(index.tokens().id, 103);
  EXPECT_EQ(index.tokens().count, 4);
}

TEST_F(ImageRows, TemplatesOfTextsHaveTheTokenInThem) {
  convert(line(kTwo) + line(kNone), kTexts);
  EXPECT_THAT(rows(), ElementsAre("u:<image><image><image><image>\nA<image><image><image><image>\n"
                                  "</s>a:[B</s>]",
                                  "u:C</s>a:[D</s>]"));
}

TEST_F(ImageRows, MarksStandAroundPictures) {
  convert(line(kTwo) + line(kNone), kMarks, kGemma3);
  EXPECT_THAT(rows(),
              ElementsAre("u:\n\n<boi><image><image><eoi>\n\nA\n\n<boi><image><image><eoi>\n\n"
                          "</s>a:[B</s>]",
                          "u:C</s>a:[D</s>]"));
}

TEST_F(ImageRows, PicturesAreNeverLearned) {
  settings_.train_on = TrainOn::all;
  convert(line(kTwo));
  EXPECT_THAT(rows(), ElementsAre("u[:]<image><image><image><image>[\nA]<image><image><image>"
                                  "<image>[\n</s>a:B</s>]"));
}

TEST_F(ImageRows, ACutRowHasWholePictures) {
  settings_.train_on = TrainOn::all;
  settings_.overlong = Overlong::truncate_end;
  settings_.max_length = 10;
  convert(line(kTwo));
  EXPECT_THAT(rows(), ElementsAre("u[:]<image><image><image><image>[\nA]"));
  EXPECT_THAT(pictures(0), ElementsAre("noise.png"));
}

TEST_F(ImageRows, WithoutFirstTurnsTheirPicturesAreGone) {
  settings_.overlong = Overlong::truncate_start;
  settings_.max_length = 20;
  convert(line(R"({"images": ["p/noise.png", "p/rgb.jpg"], "messages": [
      {"role": "user", "content": "<image>A"}, {"role": "assistant", "content": "B"},
      {"role": "user", "content": "<image>C"}, {"role": "assistant", "content": "D"}]})"));
  EXPECT_THAT(rows(), ElementsAre("u:<image><image><image><image>\nC</s>a:[D</s>]"));
  EXPECT_THAT(pictures(0), ElementsAre("rgb.jpg"));
}

TEST_F(ImageRows, BrokenPicturesAreNamedOrLeftOut) {
  write_file_atomically(folder_ / "p" / "bad.png", "no picture");
  const auto with = [](const std::string& name) {
    return line(R"({"image": "p/)" + name + R"(", "conversations": [
        {"from": "human", "value": "<image>"}, {"from": "gpt", "value": "B"}]})");
  };
  const std::string lines = with("noise.png") + with("bad.png") + with("missing.png");
  EXPECT_THAT(
      [&] { convert(lines); },
      ThrowsMessage<IoError>(testing::AllOf(
          HasSubstr("2 lines: a picture that cannot be read (the first: "),
          HasSubstr("chat.jsonl:2: "), HasSubstr("bad.png: not a picture in PNG or JPEG"))));
  EXPECT_FALSE(has_images(settings_.output.string()));
  settings_.skip_invalid = true;
  const ChatFilesResult result = convert(lines);
  EXPECT_EQ(result.rows, 1);
  EXPECT_EQ(result.problems[static_cast<size_t>(ConversationProblem::broken_image)].lines, 2);
}

TEST_F(ImageRows, ATextThatSpellsTheTokenIsRefused) {
  const auto lines = line(R"({"messages": [{"role": "user", "content": "<image>?"},
                              {"role": "assistant", "content": "B"}]})");
  EXPECT_THAT([&] { convert(lines); },
              ThrowsMessage<IoError>(HasSubstr("0 pictures in messages, and 1 place (<image>)")));
  EXPECT_THAT([&] { convert(lines, kMarks, kGemma3); },
              ThrowsMessage<IoError>(HasSubstr("the text of a message spells it")));
  settings_.control_tokens_as_text = true;
  convert(lines);
  EXPECT_THAT(rows(), ElementsAre("u:<image>?</s>a:[B</s>]"));
  EXPECT_FALSE(has_images(settings_.output.string()));
}

TEST_F(ImageRows, AnAnswerIsKeptWithoutTheToken) {
  convert(line(kTwo), kMarks, kGemma3);
  EXPECT_EQ(places_->without_places("a<image><boi>b<im<boi>age><eoi>"), "ab<eoi>");
  EXPECT_EQ(places_->without_places("none"), "none");
}

TEST_F(ImageRows, DataWithoutPicturesTakeTheOldIndexAway) {
  convert(line(kTwo));
  EXPECT_TRUE(has_images(settings_.output.string()));
  EXPECT_THAT([&] { merge_indexed_datasets({settings_.output}, folder_ / "both"); },
              ThrowsMessage<ConfigError>(HasSubstr("has pictures")));
  convert(line(kNone));
  EXPECT_FALSE(has_images(settings_.output.string()));
}

TEST_F(ImageRows, ThatLostTheirPicturesAreRefused) {
  convert(line(kTwo) + line(kNone));
  const std::string prefix = settings_.output.string();
  EXPECT_EQ(read_token_record(IndexedDataset(prefix))->conversations->images, 2);
  EXPECT_NO_THROW(check_dataset_files({prefix}, "--input"));
  std::filesystem::remove(prefix + ".images.idx");
  EXPECT_THAT([&] { check_dataset_files({prefix}, "--input"); },
              ThrowsMessage<ConfigError>(HasSubstr(prefix + ".images.idx does not exist")));
  EXPECT_THAT([&] { merge_indexed_datasets({prefix}, folder_ / "both"); },
              ThrowsMessage<IoError>(HasSubstr("has a part of the files about its pictures")));
  std::filesystem::remove(prefix + ".images.bin");
  std::filesystem::remove(prefix + ".images.jsonl");
  EXPECT_THAT([&] { check_dataset_files({prefix}, "--input"); },
              ThrowsMessage<ConfigError>(testing::AllOf(
                  HasSubstr("--input: data set " + prefix),
                  HasSubstr("its rows have 2 places of pictures (" + prefix + ".tokens.json)"),
                  HasSubstr(prefix + ".images.idx, "))));
  EXPECT_THROW(check_image_files(IndexedDataset(prefix)), IoError);
  // Without a record, nobody knows.
  std::filesystem::remove(prefix + ".tokens.json");
  EXPECT_NO_THROW(check_image_files(IndexedDataset(prefix)));
  convert(line(kNone));
  EXPECT_NO_THROW(check_image_files(IndexedDataset(prefix)));
}

TEST(ImageTokens, AreCountedByTheModelsConfig) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = image_tokenizer(folder / "model");
  const auto count = [&](const char* tower, const char* strategy) {
    json config = json::parse(kLlava);
    config["vision_config"]["model_type"] = tower;
    config["vision_feature_select_strategy"] = strategy;
    return tokens_of(config.dump().c_str(), tokenizer).count;
  };
  EXPECT_EQ(count("clip_vision_model", "default"), 4);
  EXPECT_EQ(count("clip_vision_model", "full"), 5);
  EXPECT_EQ(count("siglip_vision_model", "default"), 3);
  EXPECT_EQ(count("siglip_vision_model", "full"), 4);
  EXPECT_THROW(count("pixtral", "full"), ConfigError);
  EXPECT_THROW(count("clip_vision_model", "half"), ConfigError);
  EXPECT_FALSE(image_tokens(json::parse(R"({"model_type": "llama"})"), "config.json",
                            tokenizer.added_tokens()));
  json other = json::parse(kLlava);
  other["image_token_index"] = 900;
  EXPECT_THAT([&] { tokens_of(other.dump().c_str(), tokenizer); },
              ThrowsMessage<ConfigError>(HasSubstr("image_token_index=900")));
}

}  // namespace
}  // namespace viaduct
