#pragma once
// Tokenizers as keys of a GGUF file (ggml/docs/gguf.md, "Tokenizer"), and back: byte-level BPE
// here, SentencePiece in gguf_sentencepiece.h.

#include <map>
#include <string>
#include <vector>

#include "checkpoint/gguf_metadata.h"
#include "data/tokenizer/tokenizer_files.h"
#include "model/model_config.h"

namespace viaduct {

/// Adds the tokenizer of a model's files: a byte-level tokenizer.json, vocab.json with merges.txt,
/// or a SentencePiece model of BPE. For a tokenizer.json it also adds the whole text, which
/// programs other than llama.cpp read. Ids up to the model's vocabulary without a token become
/// unused ones, as llama.cpp expects a token for each row of the embedding. Returns notes, for
/// people, where a file has no tokenizer, or one that llama.cpp cannot compute from these keys, and
/// for each kind of texts that it will cut into other tokens. IoError for damaged files, and for
/// more tokens than the model's vocabulary.
std::vector<std::string> add_gguf_tokenizer(GgufHeadWriter& head, const ModelConfig& model,
                                            const TokenizerFiles& files);

/// The tokenizer of a GGUF file as files of a Hugging Face folder: name to text. Notes, for people,
/// are appended where the file has none or one that is not supported. IoError for malformed keys.
std::map<std::string, std::string> tokenizer_of_gguf(const GgufKeys& keys,
                                                     std::vector<std::string>& notes);

}  // namespace viaduct
