#include "checkpoint/fused_experts.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/expert_slices.h"
#include "model/adapter_modules.h"
#include "model/parameter_maker.h"

namespace viaduct {
namespace {

constexpr std::string_view kExperts = ".experts.";

/// The parts of "….experts.NAME" or "….experts.3.NAME"; nothing where NAME is not among `fused`.
struct ExpertName {
  std::string before;  // "….experts."
  std::string name;
  int64_t expert = -1;  // −1: of all experts
};

std::optional<ExpertName> parse(const std::string& text, const std::vector<std::string>& fused) {
  const size_t at = text.find(kExperts);
  if (at == std::string::npos) return std::nullopt;
  ExpertName parsed{text.substr(0, at + kExperts.size()), text.substr(at + kExperts.size())};
  const size_t dot = parsed.name.find('.');
  if (dot != std::string::npos) {
    const std::string number = parsed.name.substr(0, dot);
    const bool digits =
        !number.empty() && number.size() <= 6 &&
        std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) return std::nullopt;
    parsed.expert = std::stoll(number);
    parsed.name = parsed.name.substr(dot + 1);
  }
  if (std::find(fused.begin(), fused.end(), parsed.name) == fused.end()) return std::nullopt;
  return parsed;
}

}  // namespace

std::vector<std::string> fused_expert_names(const TensorNames& names) {
  if (!fuses_experts(names)) return {};
  std::vector<std::string> fused;
  for (const std::string* name : {&names.expert_up, &names.expert_down}) {
    fused.push_back(last_part(*name));
    fused.push_back(last_part(*name) + kExpertBiasSuffix);
  }
  return fused;
}

std::unique_ptr<TensorSource> split_experts(std::unique_ptr<TensorSource> stored,
                                            const std::vector<std::string>& fused) {
  std::vector<ExpertSlice> slices;
  for (const TensorInfo& info : stored->tensors()) {
    const auto parsed = parse(info.name, fused);
    if (!parsed || parsed->expert >= 0 || info.shape.rank() < 2) {
      slices.push_back({.info = info, .stored = info.name});
      continue;
    }
    for (int64_t e = 0; e < info.shape[0]; ++e) {
      TensorInfo one = info;
      one.name = parsed->before + std::to_string(e) + "." + parsed->name;
      one.shape = info.shape.without_first();
      slices.push_back({.info = std::move(one), .stored = info.name, .expert = e});
    }
  }
  return std::make_unique<ExpertSlices>(std::move(stored), slices);
}

JoinedExperts::JoinedExperts(const TensorSource& split, const std::vector<std::string>& fused)
    : JoinedTensors(split) {
  for (const TensorInfo& info : split_.tensors()) {
    const auto parsed = parse(info.name, fused);
    const std::string name =
        parsed && parsed->expert >= 0 ? parsed->before + parsed->name : info.name;
    const auto [at, first] = joined_.try_emplace(name, Joined{infos_.size(), {}});
    if (first) infos_.push_back({name, info.dtype, info.shape});
    if (!parsed || parsed->expert < 0) continue;
    auto& parts = at->second.parts;
    const TensorInfo& before = infos_[at->second.info];
    VIADUCT_CHECK(IoError, before.dtype == info.dtype && before.shape == info.shape,
                  "{}: tensor \"{}\" is {} {}, that of another expert {} {}", where(),
                  shown_name(info.name), dtype_name(info.dtype), to_string(info.shape),
                  dtype_name(before.dtype), to_string(before.shape));
    const auto expert = static_cast<size_t>(parsed->expert);
    if (parts.size() <= expert) parts.resize(expert + 1);
    parts[expert] = info.name;
  }
  for (const auto& [name, joined] : joined_) {
    if (joined.parts.empty()) continue;
    for (size_t e = 0; e < joined.parts.size(); ++e)
      VIADUCT_CHECK(IoError, !joined.parts[e].empty(), "{}: \"{}\" of expert {} is missing",
                    where(), shown_name(name), e);
    TensorInfo& info = infos_[joined.info];
    info.shape = with_first(static_cast<int64_t>(joined.parts.size()), info.shape);
  }
}

}  // namespace viaduct
