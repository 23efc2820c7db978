#pragma once
// The models of pieces inside of a SentencePiece model file, as Hugging Face's transformers derives
// them.

#include <cstdint>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/sentencepiece_pieces.h"
#include "data/tokenizer/unigram.h"

namespace viaduct {

/// BPE whose merges are all cuts of a piece into two pieces, in the order of ids: the kinds Llama
/// and Gemma. Of equal pieces the last one counts.
BpeSpec bpe_of_all_pieces(const SentencePieces& pieces);

/// BPE as SentencePiece merges: only normal pieces, by falling score.
BpeSpec bpe_by_score(const SentencePieces& pieces);

/// Tokens and scores in the order of ids.
UnigramSpec unigram_of(const SentencePieces& pieces, int32_t unknown_id);

}  // namespace viaduct
