#pragma once
// What readers and writers of the tokenizers of GGUF files share: how text is split before merging,
// and the keys of tokens with roles.

#include <cstdint>

namespace viaduct::gguf_cuts {

/// The key with the text of a whole tokenizer.json.
inline constexpr const char* kWholeFile = "tokenizer.huggingface.json";

/// A token with a role: its name in tokenizer_config.json, and the key of its id.
struct NamedToken {
  const char *role, *key;
};
/// Those whose ids config.json has as well.
inline constexpr NamedToken kTextBorders[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                              {"eos_token", "tokenizer.ggml.eos_token_id"},
                                              {"pad_token", "tokenizer.ggml.padding_token_id"}};
/// Those that it does not have. The key of sep_token is spelled as llama.cpp spells it.
inline constexpr NamedToken kNamedTokens[] = {{"unk_token", "tokenizer.ggml.unknown_token_id"},
                                              {"sep_token", "tokenizer.ggml.seperator_token_id"},
                                              {"cls_token", "tokenizer.ggml.cls_token_id"},
                                              {"mask_token", "tokenizer.ggml.mask_token_id"}};

enum TokenType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5 };

/// How text is split before merging, by llama.cpp's name.
struct Cut {
  const char* name;
  const char* pattern;  // of a Split in Hugging Face's files; empty: GPT-2's, by ByteLevel
  bool ignore_merges;
  bool nfc;
  bool digits;              // digits are split first, each by itself
  bool adds_begin = false;  // where tokenizer.ggml.add_bos_token does not say
};
inline constexpr Cut kCuts[] = {
    {"gpt-2", "", false, false, false},
    {"smollm", "", false, false, true},
    {"llama-bpe",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     true, false, false, true},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     false, true, false}};

/// Further names of the same cuts.
struct OtherName {
  const char *name, *cut;
};
inline constexpr OtherName kOtherNames[] = {{"llama3", "llama-bpe"},
                                            {"llama-v3", "llama-bpe"},
                                            {"phi-2", "gpt-2"},
                                            {"deepseek-r1-qwen", "qwen2"}};

}  // namespace viaduct::gguf_cuts
