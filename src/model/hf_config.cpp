#include "model/hf_config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

// What Hugging Face's base class writes, and what says nothing about the computation.
const std::set<std::string, std::less<>>& neutral_fields() {
  static const std::set<std::string, std::less<>> fields{"_name_or_path",
                                                         "_commit_hash",
                                                         "_attn_implementation",
                                                         "_attn_implementation_autoset",
                                                         "_attn_implementation_internal",
                                                         "architectures",
                                                         "auto_map",
                                                         "bad_words_ids",
                                                         "begin_suppress_tokens",
                                                         "bos_token_id",
                                                         "cache_implementation",
                                                         "chunk_size_feed_forward",
                                                         "cross_attention_hidden_size",
                                                         "decoder_start_token_id",
                                                         "diversity_penalty",
                                                         "do_sample",
                                                         "dtype",
                                                         "early_stopping",
                                                         "encoder_no_repeat_ngram_size",
                                                         "eos_token_id",
                                                         "exponential_decay_length_penalty",
                                                         "finetuning_task",
                                                         "forced_bos_token_id",
                                                         "forced_eos_token_id",
                                                         "id2label",
                                                         "initializer_range",
                                                         "is_decoder",
                                                         "keys_to_ignore_at_inference",
                                                         "label2id",
                                                         "length_penalty",
                                                         "max_length",
                                                         "min_length",
                                                         "model_type",
                                                         "no_repeat_ngram_size",
                                                         "num_beam_groups",
                                                         "num_beams",
                                                         "num_labels",
                                                         "num_return_sequences",
                                                         "output_attentions",
                                                         "output_hidden_states",
                                                         "output_scores",
                                                         "pad_token_id",
                                                         "prefix",
                                                         "pretraining_tp",
                                                         "problem_type",
                                                         "remove_invalid_values",
                                                         "repetition_penalty",
                                                         "return_dict",
                                                         "return_dict_in_generate",
                                                         "sep_token_id",
                                                         "suppress_tokens",
                                                         "task_specific_params",
                                                         "temperature",
                                                         "tf_legacy_loss",
                                                         "tokenizer_class",
                                                         "top_k",
                                                         "top_p",
                                                         "torch_dtype",
                                                         "torchscript",
                                                         "transformers_version",
                                                         "typical_p",
                                                         "use_bfloat16",
                                                         "use_cache",
                                                         "unk_token_id"};
  return fields;
}

constexpr int kMaxDepth = 32;

}  // namespace

struct HfConfig::State {
  Json json;
  std::set<std::string, std::less<>> read;

  const Json* find(std::string_view name) {
    read.emplace(name);
    const auto found = json.find(name);
    return found == json.end() || found->is_null() ? nullptr : &*found;
  }
};

HfConfig::HfConfig(std::string_view text, std::string where)
    : state_(std::make_unique<State>()), where_(std::move(where)) {
  const auto callback = [this](int depth, Json::parse_event_t, Json&) {
    VIADUCT_CHECK(ConfigError, depth <= kMaxDepth, "{}: nested deeper than {} levels", where_,
                  kMaxDepth);
    return true;
  };
  try {
    state_->json = Json::parse(text, callback);
  } catch (const Json::exception& error) {
    fail<ConfigError>("{}: not JSON: {}", where_, error.what());
  }
  VIADUCT_CHECK(ConfigError, state_->json.is_object(), "{}: expected a JSON object, found {}",
                where_, state_->json.type_name());
}

HfConfig::HfConfig(std::unique_ptr<State> state, std::string where)
    : state_(std::move(state)), where_(std::move(where)) {}
HfConfig::~HfConfig() = default;
HfConfig::HfConfig(HfConfig&&) noexcept = default;

void HfConfig::wrong_type(std::string_view name, std::string_view expected) const {
  const auto found = state_->json.find(name);
  if (found == state_->json.end() || found->is_null())
    fail<ConfigError>("{}: {} is missing (expected {})", where_, name, expected);
  fail<ConfigError>("{}: {} is {}, expected {}", where_, name,
                    found->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60),
                    expected);
}

bool HfConfig::has(std::string_view name) const {
  return state_->find(name) != nullptr;
}

bool HfConfig::mentions(std::string_view name) const {
  return state_->json.contains(name);
}

int64_t HfConfig::integer(std::string_view name, std::optional<int64_t> fallback) {
  const Json* value = state_->find(name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !(value->is_number_integer() || value->is_number_float()))
    wrong_type(name, "an integer");
  const double number = value->get<double>();
  if (!(std::abs(number) < 9e15) || number != std::floor(number)) wrong_type(name, "an integer");
  return value->is_number_integer() ? value->get<int64_t>() : static_cast<int64_t>(number);
}

double HfConfig::number(std::string_view name, std::optional<double> fallback) {
  const Json* value = state_->find(name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_number()) wrong_type(name, "a number");
  return value->get<double>();
}

bool HfConfig::boolean(std::string_view name, std::optional<bool> fallback) {
  const Json* value = state_->find(name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_boolean()) wrong_type(name, "true or false");
  return value->get<bool>();
}

std::string HfConfig::text(std::string_view name, std::optional<std::string> fallback) {
  const Json* value = state_->find(name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_string()) wrong_type(name, "a string");
  return value->get<std::string>();
}

std::vector<int64_t> HfConfig::integers(std::string_view name) {
  const Json* value = state_->find(name);
  if (value == nullptr) return {};
  if (value->is_number_integer()) return {value->get<int64_t>()};
  if (!value->is_array()) wrong_type(name, "an integer or a list of integers");
  std::vector<int64_t> list;
  for (const Json& item : *value) {
    if (!item.is_number_integer()) wrong_type(name, "an integer or a list of integers");
    list.push_back(item.get<int64_t>());
  }
  return list;
}

std::vector<std::string> HfConfig::texts(std::string_view name) {
  const Json* value = state_->find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) wrong_type(name, "a list of strings");
  std::vector<std::string> list;
  for (const Json& item : *value) {
    if (!item.is_string()) wrong_type(name, "a list of strings");
    list.push_back(item.get<std::string>());
  }
  return list;
}

HfConfig HfConfig::object(std::string_view name) {
  const Json* value = state_->find(name);
  if (value == nullptr || !value->is_object()) wrong_type(name, "an object");
  auto state = std::make_unique<State>();
  state->json = *value;
  return HfConfig(std::move(state), fmt::format("{}: {}", where_, name));
}

void HfConfig::ignore(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) state_->read.emplace(name);
}

void HfConfig::finish() const {
  std::vector<std::string> problems;
  for (const auto& [name, value] : state_->json.items()) {
    if (value.is_null() || state_->read.contains(name) || neutral_fields().contains(name)) continue;
    problems.push_back(fmt::format("{}: field {} is not supported", where_, name));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace viaduct
