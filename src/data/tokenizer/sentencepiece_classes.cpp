// The tokenizers of SentencePiece models whose class says more than the model file.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/sentencepiece_models.h"
#include "data/tokenizer/sentencepiece_parts.h"
#include "data/tokenizer/unicode_sets.h"

namespace viaduct {
namespace {

constexpr int64_t kMostSentinels = 1 << 16;

/// Words between white space, each with a mark: the kinds of unigrams.
void cut_words(SentencePiecePipeline& made, Normalizer normalizer, bool prefix, UnigramSpec spec,
               const std::string& source) {
  PreTokenizer cuts;
  cuts.add({Regex(*property_set("Space")), SplitBehavior::removed});
  cuts.add(
      mark_spaces(prefix ? SpaceMarkStep::Prefix::always : SpaceMarkStep::Prefix::never, true));
  made.model = std::make_unique<PipelineModel>(std::move(normalizer), std::move(cuts),
                                               std::make_unique<Unigram>(std::move(spec), source));
  std::vector<DecodeStep> steps;
  steps.emplace_back(DecodeSpaceMark{kPieceSpace, prefix});
  made.decoder = TextDecoder(std::move(steps), source);
}

}  // namespace

SentencePiecePipeline make_llama(const SentencePieceParts& parts) {
  parts.name({{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}});
  parts.tokens.set_additional(parts.own_tokens());
  const bool prefix = parts.flag("add_prefix_space", true);
  const bool legacy = parts.flag("legacy", false);
  PreTokenizer marks;
  marks.add(mark_spaces(!prefix  ? SpaceMarkStep::Prefix::never
                        : legacy ? SpaceMarkStep::Prefix::always
                                 : SpaceMarkStep::Prefix::first,
                        false));
  SentencePiecePipeline made;
  made.model = std::make_unique<PipelineModel>(
      Normalizer(), std::move(marks),
      std::make_unique<Bpe>(bpe_of_all_pieces(parts.pieces), parts.source));
  made.decoder = decoder_of_marks(true, prefix, true, parts.source);
  return made;
}

SentencePiecePipeline make_gemma(const SentencePieceParts& parts) {
  parts.name({{"bos_token", "<bos>"},
              {"eos_token", "<eos>"},
              {"unk_token", "<unk>"},
              {"pad_token", "<pad>"},
              {"mask_token", "<mask>"}});
  parts.tokens.set_additional(parts.own_tokens());
  BpeSpec spec = bpe_of_all_pieces(parts.pieces);
  spec.unknown_token = parts.named("unk_token");
  Normalizer normalizer;
  normalizer.add(Replacement{Regex::from_literal(" "), kPieceSpace});
  PreTokenizer cuts;
  cuts.add({Regex::from_literal(" "), SplitBehavior::merged_with_previous});
  SentencePiecePipeline made;
  made.model = std::make_unique<PipelineModel>(
      std::move(normalizer), std::move(cuts), std::make_unique<Bpe>(std::move(spec), parts.source));
  made.decoder = decoder_of_marks(true, false, true, parts.source);
  return made;
}

/// T5's sentinels <extra_id_99> to <extra_id_0> follow the pieces.
SentencePiecePipeline make_t5(const SentencePieceParts& parts) {
  parts.name({{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}});
  int64_t count = 100;
  if (const nlohmann::json* given = find_member(parts.config, "extra_ids")) {
    VIADUCT_CHECK(IoError, given->is_number_unsigned() && *given <= kMostSentinels,
                  "{}: extra_ids must be a number up to {}",
                  parts.files.where("tokenizer_config.json"), kMostSentinels);
    count = given->get<int64_t>();
  }
  const auto sentinel = [](int64_t number) { return fmt::format("<extra_id_{}>", number); };
  std::vector<AddedToken> own = parts.own_tokens();
  const int64_t known = std::count_if(own.begin(), own.end(), [](const AddedToken& token) {
    return token.content.find("<extra_id_") != std::string::npos;
  });
  VIADUCT_CHECK(ConfigError, known == 0 || count == 0 || known == count,
                "{}: the model has {} sentinels <extra_id_N> of its own, but extra_ids is {}",
                parts.source, known, count);
  for (int64_t number = 0; known == 0 && number < count; ++number) {
    AddedToken token;
    token.content = sentinel(number);
    token.special = true;
    own.push_back(std::move(token));
  }
  parts.tokens.set_additional(std::move(own));
  UnigramSpec spec = unigram_of(parts.pieces, 2);
  for (int64_t number = count; number-- > 0;) spec.vocabulary.emplace_back(sentinel(number), 0);
  Normalizer normalizer;
  parts.add_characters(normalizer);
  SentencePiecePipeline made;
  cut_words(made, std::move(normalizer), true, std::move(spec), parts.source);
  made.border = NamedBorder{nullptr, "eos_token"};
  return made;
}

SentencePiecePipeline make_albert(const SentencePieceParts& parts) {
  parts.name({{"bos_token", "[CLS]"},
              {"eos_token", "[SEP]"},
              {"unk_token", "<unk>"},
              {"sep_token", "[SEP]"},
              {"pad_token", "<pad>"},
              {"cls_token", "[CLS]"},
              {"mask_token", "[MASK]"}});
  parts.tokens.set_additional(parts.own_tokens());
  Normalizer normalizer;
  normalizer.add(Replacement{Regex::from_literal("``"), "\""});
  normalizer.add(Replacement{Regex::from_literal("''"), "\""});
  if (!parts.truth("keep_accents", false)) {
    normalizer.add(NormalForm::nfkd);
    normalizer.add(CharacterStep::strip_accents);
  }
  if (parts.truth("do_lower_case", true)) normalizer.add(CharacterStep::lowercase);
  parts.add_characters(normalizer);
  SentencePiecePipeline made;
  cut_words(made, std::move(normalizer), parts.truth("add_prefix_space", true),
            unigram_of(parts.pieces, 1), parts.source);
  for (const char* name : {"cls_token", "sep_token"}) {
    VIADUCT_CHECK(ConfigError, made.model->find(parts.named(name)).has_value(),
                  "{}: the model has no piece \"{}\", the {} of tokenizer_class AlbertTokenizer",
                  parts.source, parts.named(name), name);
  }
  if (!parts.config.contains("add_bos_token") && !parts.config.contains("add_eos_token"))
    made.border = NamedBorder{"cls_token", "sep_token"};
  return made;
}

/// Four special tokens come first, then the pieces after the model's own three, then the mask.
SentencePiecePipeline make_xlm_roberta(const SentencePieceParts& parts) {
  parts.name({{"bos_token", "<s>"},
              {"eos_token", "</s>"},
              {"unk_token", "<unk>"},
              {"sep_token", "</s>"},
              {"pad_token", "<pad>"},
              {"cls_token", "<s>"},
              {"mask_token", "<mask>"}});
  parts.tokens.set_additional(parts.own_tokens());
  VIADUCT_CHECK(ConfigError, parts.pieces.pieces.size() >= 3, "{}: {} pieces, expected at least 3",
                parts.source, parts.pieces.pieces.size());
  SentencePieces shifted = parts.pieces;
  std::vector<SentencePieces::Piece>& pieces = shifted.pieces;
  pieces.erase(pieces.begin(), pieces.begin() + 3);
  std::vector<SentencePieces::Piece> first;
  for (const char* name : {"bos_token", "pad_token", "eos_token", "unk_token"})
    first.push_back({parts.named(name), 0, SentencePieces::kControl});
  pieces.insert(pieces.begin(), first.begin(), first.end());
  pieces.push_back({parts.named("mask_token"), 0, SentencePieces::kControl});
  Normalizer normalizer;
  parts.add_characters(normalizer);
  SentencePiecePipeline made;
  cut_words(made, std::move(normalizer), parts.truth("add_prefix_space", true),
            unigram_of(shifted, 3), parts.source);
  made.border = NamedBorder{"bos_token", "eos_token"};
  return made;
}

}  // namespace viaduct
