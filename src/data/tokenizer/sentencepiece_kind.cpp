#include "data/tokenizer/sentencepiece_kind.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"

namespace viaduct {
namespace {

constexpr const char *kConfiguration = "tokenizer_config.json", *kModel = "config.json";

/// Model types whose tokenizer is the plain one, whatever class the configuration has.
constexpr std::string_view kPlainTypes[] = {"EvollaModel",
                                            "arctic",
                                            "aria",
                                            "beam",
                                            "bigbird_pegasus",
                                            "camembertv2-base",
                                            "canary",
                                            "chatlm",
                                            "cohere_asr",
                                            "ernie4_5",
                                            "ernie4_5_moe",
                                            "flex_olmo",
                                            "fuyu",
                                            "glm",
                                            "glm4",
                                            "glm4_moe",
                                            "glm4_moe_lite",
                                            "glm4v",
                                            "glm4v_moe",
                                            "glm_image",
                                            "glmasr",
                                            "got_ocr2",
                                            "gpt_bigcode",
                                            "gradium_phonon_tts",
                                            "granite",
                                            "granitemoe",
                                            "granitemoehybrid",
                                            "granitemoeshared",
                                            "h2ovl_chat",
                                            "hyperclovax",
                                            "hyperclovax_vlm",
                                            "internlm2",
                                            "internlm3",
                                            "iquestcoder",
                                            "jamba",
                                            "kimi_k25",
                                            "kimi_linear",
                                            "kosmos-2",
                                            "llava",
                                            "llava_next",
                                            "mimo_v2_flash",
                                            "minicpm3",
                                            "minicpm_ocr",
                                            "minicpmv",
                                            "minicpmv4_6",
                                            "minicpmv4_7",
                                            "minimax_m2",
                                            "ministral",
                                            "ministral3",
                                            "mistral",
                                            "mistral3",
                                            "mistral_large4",
                                            "mixtral",
                                            "modernbert",
                                            "modernbert-decoder",
                                            "molmo",
                                            "molmo2",
                                            "nemo_speechlm",
                                            "nemotron",
                                            "nvfp4",
                                            "nystromformer",
                                            "olmo2",
                                            "olmo3",
                                            "olmo_hybrid",
                                            "omniasr",
                                            "opencua",
                                            "openvla",
                                            "paddleocr_vl",
                                            "pegasus_x",
                                            "persimmon",
                                            "phi3",
                                            "phi3_v",
                                            "phimoe",
                                            "pix2struct",
                                            "pixtral",
                                            "pocket_tts",
                                            "smolvlm",
                                            "stablelm",
                                            "step3_vl",
                                            "umt5",
                                            "vipllava",
                                            "voxtral",
                                            "voxtral_realtime",
                                            "xlm-roberta-xl"};

/// The classes of model types, for folders that name none.
constexpr std::pair<std::string_view, std::string_view> kClasses[] = {
    {"albert", "AlbertTokenizer"},
    {"barthez", "BarthezTokenizer"},
    {"bartpho", "BartphoTokenizer"},
    {"bert-generation", "BertGenerationTokenizer"},
    {"big_bird", "BigBirdTokenizer"},
    {"camembert", "CamembertTokenizer"},
    {"code_llama", "CodeLlamaTokenizer"},
    {"cpm", "CpmTokenizer"},
    {"deberta-v2", "DebertaV2Tokenizer"},
    {"diffusion_gemma", "GemmaTokenizer"},
    {"fnet", "FNetTokenizer"},
    {"gemma", "GemmaTokenizer"},
    {"gemma2", "GemmaTokenizer"},
    {"gemma3", "GemmaTokenizer"},
    {"gemma3_text", "GemmaTokenizer"},
    {"gemma3n", "GemmaTokenizer"},
    {"gemma3n_text", "GemmaTokenizer"},
    {"gpt-sw3", "GPTSw3Tokenizer"},
    {"granite_speech5_ctc", "ParakeetTokenizer"},
    {"gte", "XLMRobertaTokenizer"},
    {"idefics", "LlamaTokenizer"},
    {"idefics2", "LlamaTokenizer"},
    {"jina_embeddings_v3", "XLMRobertaTokenizer"},
    {"lasr_ctc", "LasrTokenizer"},
    {"lasr_encoder", "LasrTokenizer"},
    {"layoutxlm", "LayoutXLMTokenizer"},
    {"m2m_100", "M2M100Tokenizer"},
    {"marian", "MarianTokenizer"},
    {"mbart", "MBartTokenizer"},
    {"mbart50", "MBart50Tokenizer"},
    {"metaclip_2", "XLMRobertaTokenizer"},
    {"mluke", "MLukeTokenizer"},
    {"mt5", "T5Tokenizer"},
    {"musicgen", "T5Tokenizer"},
    {"musicgen_melody", "T5Tokenizer"},
    {"nemotron3_5_asr", "ParakeetTokenizer"},
    {"nemotron_asr_streaming", "ParakeetTokenizer"},
    {"nllb", "NllbTokenizer"},
    {"nllb-moe", "NllbTokenizer"},
    {"omniasr_ctc", "ParakeetTokenizer"},
    {"parakeet_ctc", "ParakeetTokenizer"},
    {"parakeet_rnnt", "ParakeetTokenizer"},
    {"parakeet_tdt", "ParakeetTokenizer"},
    {"pegasus", "PegasusTokenizer"},
    {"plbart", "PLBartTokenizer"},
    {"recurrent_gemma", "GemmaTokenizer"},
    {"reformer", "ReformerTokenizer"},
    {"rembert", "RemBertTokenizer"},
    {"seamless_m4t", "SeamlessM4TTokenizer"},
    {"seamless_m4t_v2", "SeamlessM4TTokenizer"},
    {"shieldgemma2", "GemmaTokenizer"},
    {"siglip", "SiglipTokenizer"},
    {"siglip2", "Siglip2Tokenizer"},
    {"speech_to_text", "Speech2TextTokenizer"},
    {"speecht5", "SpeechT5Tokenizer"},
    {"switch_transformers", "T5Tokenizer"},
    {"t5", "T5Tokenizer"},
    {"t5gemma", "GemmaTokenizer"},
    {"tipsv2", "Tipsv2Tokenizer"},
    {"trocr", "XLMRobertaTokenizer"},
    {"udop", "UdopTokenizer"},
    {"videoprism", "VideoPrismTokenizer"},
    {"xglm", "XGLMTokenizer"},
    {"xlm-roberta", "XLMRobertaTokenizer"},
    {"xlnet", "XLNetTokenizer"},
    {"xmod", "XLMRobertaTokenizer"},
    {"yoso", "AlbertTokenizer"},
    {"zaya", "GemmaTokenizer"}};

/// Names of the plain kind.
constexpr std::string_view kPlain[] = {"TokenizersBackend", "PreTrainedTokenizer",
                                       "PreTrainedTokenizerFast"};

constexpr std::pair<std::string_view, SentencePieceKind> kKinds[] = {
    {"LlamaTokenizer", SentencePieceKind::llama},
    {"GemmaTokenizer", SentencePieceKind::gemma},
    {"T5Tokenizer", SentencePieceKind::t5},
    {"AlbertTokenizer", SentencePieceKind::albert},
    {"XLMRobertaTokenizer", SentencePieceKind::xlm_roberta},
};

bool contains(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

template <class Pairs>
auto find_in(const Pairs& pairs, std::string_view name) {
  return std::find_if(std::begin(pairs), std::end(pairs),
                      [&](const auto& pair) { return pair.first == name; });
}

std::string member_of(const TokenizerFiles& files, const char* file, std::string_view name) {
  const auto document = files.object(file);
  return document ? string_member(*document, name, files.where(file)) : "";
}

}  // namespace

const char* sentencepiece_file(const TokenizerFiles& files) {
  const auto found = std::find_if(std::begin(kSentencePieceFiles), std::end(kSentencePieceFiles),
                                  [&](const char* name) { return files.has(name); });
  return found == std::end(kSentencePieceFiles) ? nullptr : *found;
}

SentencePieceKind sentencepiece_kind(const TokenizerFiles& files) {
  const char* source = kConfiguration;
  std::string name = member_of(files, kConfiguration, "tokenizer_class");
  if (name.empty()) name = member_of(files, source = kModel, "tokenizer_class");
  std::string given = name;
  if (name.ends_with("Fast") && !contains(kPlain, name)) name.resize(name.size() - 4);
  const std::string type = member_of(files, kModel, "model_type");
  if (contains(kPlainTypes, type) || contains(kPlain, name)) return SentencePieceKind::plain;
  if (name.empty()) {
    const auto usual = find_in(kClasses, type);
    if (usual == std::end(kClasses)) return SentencePieceKind::plain;
    name = usual->second;
    given = name;
  }
  const auto kind = find_in(kKinds, name);
  if (kind != std::end(kKinds)) return kind->second;
  fail<ConfigError>(
      "{}: tokenizer_class {} is not supported for a SentencePiece model, expected one of "
      "LlamaTokenizer, GemmaTokenizer, T5Tokenizer, AlbertTokenizer, XLMRobertaTokenizer, "
      "PreTrainedTokenizerFast; a tokenizer.json of the same tokenizer works (in transformers: "
      "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER))",
      files.where(source), given);
}

void check_sentencepiece_file(SentencePieceKind kind, std::string_view file,
                              const TokenizerFiles& files) {
  const auto& [general, t5, xlm_roberta] = kSentencePieceFiles;
  std::string_view own = general;  // besides the general name
  if (kind == SentencePieceKind::t5 || kind == SentencePieceKind::albert) own = t5;
  if (kind == SentencePieceKind::xlm_roberta) own = xlm_roberta;
  // transformers refuses other names of the plain kind, whose ids are SentencePiece's in any case.
  const bool found = kind == SentencePieceKind::plain || file == general || file == own;
  VIADUCT_CHECK(ConfigError, found,
                "{}: {} is not looked for under this name, expected {}{}; rename the file",
                files.where(std::string(file)), sentencepiece_class(kind), general,
                own == general ? "" : " or " + std::string(own));
}

std::string_view sentencepiece_class(SentencePieceKind kind) {
  for (const auto& [name, each] : kKinds) {
    if (each == kind) return name;
  }
  return "PreTrainedTokenizerFast";
}

}  // namespace viaduct
