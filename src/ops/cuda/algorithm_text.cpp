// The text of an AlgorithmFile.

#include <fmt/format.h>

#include <charconv>

#include "base/hash.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "ops/cuda/algorithm_file.h"

namespace viaduct::cuda {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "viaduct product algorithms";
constexpr int64_t kVersion = 1;
constexpr size_t kHexDigits = 16;  // of a word
constexpr JsonLimits kLimits{size_t{64} << 20, 8, 1};

std::string checksum_of(const Json& document) {
  return fmt::format("{:016x}", hash64(document.dump()));
}

std::string hex_of(const std::array<uint64_t, 8>& words) {
  std::string text;
  for (const uint64_t word : words) text += fmt::format("{:016x}", word);
  return text;
}

/// A file whose members have the types of this reader.
class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  [[noreturn]] void wrong(const char* name) const {
    fail<IoError>("{}: no file of product algorithms: \"{}\" is missing or wrong", where_, name);
  }
  const Json& member(const Json& object, const char* name) const {
    const auto found = object.find(name);
    if (found == object.end()) wrong(name);
    return *found;
  }
  std::string text(const Json& object, const char* name) const {
    const Json& value = member(object, name);
    if (!value.is_string()) wrong(name);
    return value.get<std::string>();
  }
  int64_t count(const Json& object, const char* name) const {
    const auto value = json_count(member(object, name));
    if (!value) wrong(name);
    return *value;
  }
  double seconds(const Json& object, const char* name) const {
    const Json& value = member(object, name);
    if (!value.is_number() || value.get<double>() < 0) wrong(name);
    return value.get<double>();
  }
  std::array<uint64_t, 8> words(const Json& object, const char* name) const {
    const std::string digits = text(object, name);
    std::array<uint64_t, 8> words{};
    if (digits.size() != kHexDigits * words.size()) wrong(name);
    for (size_t i = 0; i < words.size(); ++i) {
      const char *begin = digits.data() + i * kHexDigits, *end = begin + kHexDigits;
      const auto parsed = std::from_chars(begin, end, words[i], 16);
      if (parsed.ec != std::errc() || parsed.ptr != end) wrong(name);
    }
    return words;
  }

 private:
  const std::string& where_;
};

}  // namespace

std::string algorithm_text(const AlgorithmSource& source,
                           const std::map<std::string, StoredAlgorithm>& algorithms) {
  Json products = Json::object();
  for (const auto& [kind, algorithm] : algorithms) {
    products[kind] = {{"algorithm", hex_of(algorithm.words)},
                      {"place", algorithm.place},
                      {"seconds", algorithm.seconds},
                      {"seconds_of_first", algorithm.seconds_of_first}};
  }
  Json document = {{"format", kFormat},
                   {"version", kVersion},
                   {"gpu", source.gpu},
                   {"compute_capability", source.compute_capability},
                   {"driver", source.driver},
                   {"cublaslt", source.library},
                   {"products", std::move(products)}};
  document["checksum"] = checksum_of(document);
  return document.dump(1) + "\n";
}

std::map<std::string, StoredAlgorithm> parse_algorithms(std::string_view text,
                                                        const std::string& where,
                                                        AlgorithmSource& source) {
  Json document = parse_json<Json>(text, where, kLimits);
  const Reader reader(where);
  VIADUCT_CHECK(IoError, document.is_object() && document.value("format", Json()) == kFormat,
                "{}: no file of product algorithms", where);
  const int64_t version = reader.count(document, "version");
  VIADUCT_CHECK(IoError, version == kVersion, "{}: version {} of the format, this program reads {}",
                where, version, kVersion);
  const std::string checksum = reader.text(document, "checksum");
  document.erase("checksum");
  VIADUCT_CHECK(IoError, checksum == checksum_of(document),
                "{}: damaged, or changed by hand: its checksum does not match", where);
  source.gpu = reader.text(document, "gpu");
  source.compute_capability = static_cast<int>(reader.count(document, "compute_capability"));
  source.driver = reader.count(document, "driver");
  source.library = reader.count(document, "cublaslt");
  const Json& products = reader.member(document, "products");
  if (!products.is_object()) reader.wrong("products");
  std::map<std::string, StoredAlgorithm> algorithms;
  for (const auto& [kind, product] : products.items()) {
    if (!product.is_object()) reader.wrong("products");
    StoredAlgorithm& algorithm = algorithms[kind];
    algorithm.words = reader.words(product, "algorithm");
    algorithm.place = reader.count(product, "place");
    algorithm.seconds = reader.seconds(product, "seconds");
    algorithm.seconds_of_first = reader.seconds(product, "seconds_of_first");
  }
  return algorithms;
}

}  // namespace viaduct::cuda
