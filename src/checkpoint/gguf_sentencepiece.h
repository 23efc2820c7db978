#pragma once
// SentencePiece BPE models (Llama 2, Mistral, Gemma) as keys of a GGUF file, and back.

#include <map>
#include <string>

#include "checkpoint/gguf_metadata.h"
#include "data/tokenizer/sentencepiece_pieces.h"

namespace viaduct {

/// Adds pieces with scores and types, in the order of ids. Ids up to `vocabulary` without a piece
/// become unused ones. IoError for more pieces than that.
void add_gguf_pieces(GgufHeadWriter& head, const SentencePieces& pieces, int64_t vocabulary);

/// The files of a tokenizer whose keys are those: tokenizer.model, and tokenizer_config.json where
/// the keys say what is put around a text. IoError for malformed keys.
std::map<std::string, std::string> pieces_of_gguf(const GgufKeys& keys);

}  // namespace viaduct
