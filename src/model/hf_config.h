#pragma once
// A Hugging Face `config.json`, read field by field. It records which fields were read, so that an
// unused field is reported by name instead of silently giving another model.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

enum class UnknownFields { named, refused };

class HfConfig {
 public:
  /// Reads the text of a config.json. IoError (with `where` and offset) if it is not JSON
  /// (base/json_reader.h) or nested deeper than 32 levels, ConfigError if it is not an object.
  HfConfig(std::string_view text, std::string where);
  /// The same for JSON that was already read, or was made here.
  static HfConfig of_json(nlohmann::json json, std::string where);
  ~HfConfig();
  HfConfig(HfConfig&&) noexcept;

  const std::string& where() const { return where_; }

  /// Present and not null; `mentions`: present, maybe null (where null and absent mean different
  /// things).
  bool has(std::string_view name) const;
  bool mentions(std::string_view name) const;
  /// Present, and a list.
  bool is_list(std::string_view name) const;
  /// The field, or `fallback` where it is absent or null; without fallback an absent field is a
  /// ConfigError. So is another type.
  int64_t integer(std::string_view name, std::optional<int64_t> fallback = {});
  /// The same of a field in which null says that there is none: 0 then.
  int64_t integer_or_none(std::string_view name, int64_t fallback);
  double number(std::string_view name, std::optional<double> fallback = {});
  bool boolean(std::string_view name, std::optional<bool> fallback = {});
  /// The same of a switch that some files have as a number: 0 is false, others are true.
  bool switched_on(std::string_view name, bool fallback);
  std::string text(std::string_view name, std::optional<std::string> fallback = {});
  /// An integer or a list of integers; empty where absent.
  std::vector<int64_t> integers(std::string_view name);
  /// A list of numbers; empty where absent.
  std::vector<double> numbers(std::string_view name);
  std::vector<std::string> texts(std::string_view name);
  /// A list of pairs [texts, n], of which each stands for its texts n times over (GPT-Neo); empty
  /// where absent.
  std::vector<std::string> repeated_texts(std::string_view name);
  /// An object as a separate reader.
  HfConfig object(std::string_view name);

  /// Marks fields that have no effect here.
  void ignore(std::initializer_list<std::string_view> names);
  /// Checks every field that is present, not null, and was neither read nor ignored
  /// (model/hf_fields.h). ConfigError naming those that change the computation, and unknown ones
  /// that may; returns the names of other unknown ones, unless they are refused too.
  [[nodiscard]] std::vector<std::string> finish(UnknownFields unknown = UnknownFields::named) const;

 private:
  struct State;
  HfConfig(std::unique_ptr<State> state, std::string where);
  [[noreturn]] void wrong_type(std::string_view name, std::string_view expected) const;

  std::unique_ptr<State> state_;
  std::string where_;
};

}  // namespace viaduct
