#pragma once
// The sentinels of span corruption (data/span_corruption.h) that a run's tokens have.

#include <cstdint>
#include <optional>

#include "data/pair_settings.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// A tokenizer's own (null: there are no files): <extra_id_0>, <extra_id_1>, …, whose ids go down,
/// as those of T5; else the `extra` tokens at the end of the vocabulary of `tokens` that
/// tokenizer.vocab_extra_ids gives, the last one first. None: there are neither.
std::optional<Sentinels> sentinel_tokens(const Tokenizer* tokenizer, int64_t extra,
                                         std::optional<int64_t> tokens);

}  // namespace viaduct
