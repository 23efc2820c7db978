#include "data/tokenizer/vocabulary_files.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/tokenizer_json.h"

namespace viaduct {
namespace {

constexpr const char *kConfiguration = "tokenizer_config.json", *kModel = "config.json";

enum class Kind { gpt2, gpt_neox, qwen2, roberta };

constexpr std::pair<std::string_view, Kind> kKinds[] = {
    {"GPT2Tokenizer", Kind::gpt2},         {"CodeGenTokenizer", Kind::gpt2},
    {"GPTNeoXTokenizer", Kind::gpt_neox},  {"Qwen2Tokenizer", Kind::qwen2},
    {"RobertaTokenizer", Kind::roberta},   {"BartTokenizer", Kind::roberta},
    {"LongformerTokenizer", Kind::roberta}};

/// Model types whose folders mean a class that they do not name.
constexpr std::pair<std::string_view, std::string_view> kClasses[] = {
    {"aimv2", "CLIPTokenizer"},
    {"bart", "RobertaTokenizer"},
    {"blenderbot", "BlenderbotTokenizer"},
    {"blip-2", "GPT2Tokenizer"},
    {"bridgetower", "RobertaTokenizer"},
    {"clap", "RobertaTokenizer"},
    {"clip", "CLIPTokenizer"},
    {"clipseg", "CLIPTokenizer"},
    {"codegen", "GPT2Tokenizer"},
    {"ctrl", "CTRLTokenizer"},
    {"data2vec-text", "RobertaTokenizer"},
    {"dbrx", "GPT2Tokenizer"},
    {"deberta", "DebertaTokenizer"},
    {"emu3", "GPT2Tokenizer"},
    {"falcon_mamba", "GPTNeoXTokenizer"},
    {"fsmt", "FSMTTokenizer"},
    {"gpt2", "GPT2Tokenizer"},
    {"gpt_neo", "GPT2Tokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer"},
    {"gpt_neox_japanese", "GPTNeoXJapaneseTokenizer"},
    {"gptj", "GPT2Tokenizer"},
    {"groupvit", "CLIPTokenizer"},
    {"ibert", "RobertaTokenizer"},
    {"layoutlmv3", "LayoutLMv3Tokenizer"},
    {"led", "LEDTokenizer"},
    {"lilt", "RobertaTokenizer"},
    {"longformer", "RobertaTokenizer"},
    {"luke", "LukeTokenizer"},
    {"mamba", "GPTNeoXTokenizer"},
    {"mamba2", "GPTNeoXTokenizer"},
    {"markuplm", "MarkupLMTokenizer"},
    {"mega", "RobertaTokenizer"},
    {"mpt", "GPTNeoXTokenizer"},
    {"mra", "RobertaTokenizer"},
    {"mvp", "MvpTokenizer"},
    {"olmo", "GPTNeoXTokenizer"},
    {"olmoe", "GPTNeoXTokenizer"},
    {"openai-gpt", "OpenAIGPTTokenizer"},
    {"opt", "GPT2Tokenizer"},
    {"owlv2", "CLIPTokenizer"},
    {"owlvit", "CLIPTokenizer"},
    {"phi", "GPT2Tokenizer"},
    {"qwen2", "Qwen2Tokenizer"},
    {"qwen2_5_vl", "Qwen2Tokenizer"},
    {"qwen2_moe", "Qwen2Tokenizer"},
    {"qwen2_vl", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer"},
    {"qwen3_5", "Qwen3_5Tokenizer"},
    {"qwen3_5_moe", "Qwen3_5Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer"},
    {"qwen3_next", "Qwen2Tokenizer"},
    {"qwen3_vl", "Qwen2Tokenizer"},
    {"roberta", "RobertaTokenizer"},
    {"roberta-prelayernorm", "RobertaTokenizer"},
    {"rwkv", "GPTNeoXTokenizer"},
    {"starcoder2", "GPT2Tokenizer"},
    {"whisper", "WhisperTokenizer"},
    {"xclip", "CLIPTokenizer"},
    {"xlm", "XLMTokenizer"},
};

template <class Pairs>
auto find_in(const Pairs& pairs, std::string_view name) {
  return std::find_if(std::begin(pairs), std::end(pairs),
                      [&](const auto& pair) { return pair.first == name; });
}

/// `merges.txt`: one pair a line, in order of rank; a leading comment line and empty lines are
/// skipped.
std::vector<std::pair<std::string, std::string>> read_merges(const TokenizerFiles& files) {
  const std::string text = files.text(kMergesFile);
  std::vector<std::pair<std::string, std::string>> merges;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    VIADUCT_CHECK(IoError,
                  space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                      line.find(' ', space + 1) == std::string_view::npos,
                  "{}: line {} must be two tokens with a space between", files.where(kMergesFile),
                  number);
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

struct Class {
  Kind kind = Kind::gpt2;
  bool named = false;  // by the folder
};

Class class_of(const TokenizerFiles& files) {
  std::string name, type;
  const char* source = kConfiguration;
  const auto model = files.object(kModel);
  if (const auto config = files.object(kConfiguration))
    name = string_member(*config, "tokenizer_class", files.where(kConfiguration));
  if (model) {
    type = string_member(*model, "model_type", files.where(kModel));
    if (name.empty()) {
      source = kModel;
      name = string_member(*model, "tokenizer_class", files.where(kModel));
    }
  }
  std::string given = name;
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name.empty()) {
    const auto usual = find_in(kClasses, type);
    if (usual == std::end(kClasses)) return {};
    name = usual->second;
    given = name;
  }
  const auto kind = find_in(kKinds, name);
  if (kind != std::end(kKinds)) return {kind->second, true};
  fail<ConfigError>(
      "{}: tokenizer_class {} is not supported for vocab.json with merges.txt, expected one of "
      "GPT2Tokenizer, CodeGenTokenizer, GPTNeoXTokenizer, Qwen2Tokenizer, RobertaTokenizer, "
      "BartTokenizer, LongformerTokenizer; a tokenizer.json of the same tokenizer may work (in "
      "transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER))",
      files.where(source), given);
}

void name_special_tokens(Kind kind, FolderTokens& tokens) {
  const auto name = [&](std::initializer_list<const char*> names, const char* content) {
    for (const char* each : names) tokens.name_by_default(each, content);
  };
  if (kind == Kind::roberta) {
    name({"bos_token", "cls_token"}, "<s>");
    name({"eos_token", "sep_token"}, "</s>");
    name({"unk_token"}, "<unk>");
    name({"pad_token"}, "<pad>");
    name({"mask_token"}, "<mask>");
    return;
  }
  name({"unk_token", "eos_token"}, "<|endoftext|>");
  name({"bos_token"}, kind == Kind::qwen2 ? "" : "<|endoftext|>");
  if (kind == Kind::qwen2) name({"pad_token"}, "<|endoftext|>");
  if (kind == Kind::gpt_neox) name({"pad_token"}, "<|padding|>");
}

}  // namespace

VocabularyPipeline read_vocabulary_files(const TokenizerFiles& files, FolderTokens& tokens) {
  const std::string source = files.where(kVocabularyFile);
  const auto [kind, named] = class_of(files);
  if (named) name_special_tokens(kind, tokens);
  if (kind == Kind::qwen2) tokens.make_special_plain();
  BpeSpec spec;
  spec.vocabulary = parse_vocabulary(*files.object(kVocabularyFile), source);
  spec.merges = read_merges(files);
  bool add_prefix_space = false, trims = true;
  if (const auto config = files.object(kConfiguration)) {
    const std::string where = files.where(kConfiguration);
    add_prefix_space = bool_member(*config, "add_prefix_space", where, false);
    // transformers then puts a space before each piece of this class, not only before the text.
    VIADUCT_CHECK(ConfigError, !(add_prefix_space && kind == Kind::qwen2),
                  "{}: add_prefix_space is not supported for Qwen2Tokenizer with vocab.json and "
                  "merges.txt, expected false; a tokenizer.json of the same tokenizer works",
                  where);
    trims = bool_member(*config, "trim_offsets", where, true);
  }
  Normalizer normalizer;
  if (kind == Kind::qwen2 || kind == Kind::gpt_neox) normalizer.add(NormalForm::nfc);
  VocabularyPipeline made;
  made.model = std::make_unique<PipelineModel>(
      std::move(normalizer),
      pre_tokenizer_of(kind == Kind::qwen2 ? qwen2_pattern() : gpt2_pattern(), add_prefix_space),
      std::make_unique<Bpe>(std::move(spec), source));
  if (kind == Kind::roberta) {
    made.border = NamedBorder{"cls_token", "sep_token"};
    if (trims) made.trims.push_back({add_prefix_space});
  }
  return made;
}

std::string_view vocabulary_class(const TokenizerFiles& files) {
  const Class found = class_of(files);
  if (!found.named) return "";
  return std::find_if(std::begin(kKinds), std::end(kKinds),
                      [&](const auto& pair) { return pair.second == found.kind; })
      ->first;
}

}  // namespace viaduct
