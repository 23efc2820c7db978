// The settings of image processors as Hugging Face's files have them.

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "base/nearest.h"
#include "image/image_processor.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr int64_t kLargestSide = 8192;
constexpr std::array<double, 3> kClipMean{0.48145466, 0.4578275, 0.40821073},
    kClipStd{0.26862954, 0.26130258, 0.27577711}, kHalves{0.5, 0.5, 0.5};

/// What a class of processors has where its file says nothing.
struct ProcessorClass {
  const char* name;
  bool square;  // a size of one number: of both sides, else of the shorter one
  ImageProcessorSettings defaults;
};

const std::vector<ProcessorClass>& processor_classes() {
  static const std::vector<ProcessorClass> classes = [] {
    ImageProcessorSettings clip;
    clip.shortest_edge = 224;
    clip.mean = kClipMean;
    clip.std = kClipStd;
    ImageProcessorSettings siglip;
    siglip.center_crop = false;
    siglip.mean = siglip.std = kHalves;
    ImageProcessorSettings gemma3 = siglip;
    gemma3.resampling = Resampling::bilinear;
    return std::vector<ProcessorClass>{{"CLIPImageProcessor", false, clip},
                                       {"Gemma3ImageProcessor", true, gemma3},
                                       {"LlavaImageProcessor", false, clip},
                                       {"SiglipImageProcessor", false, siglip}};
  }();
  return classes;
}

/// Without the endings of variants that differ in the library that they use, and the name that
/// files had before.
std::string plain_name(std::string name) {
  for (const std::string_view ending : {"Fast", "Pil"}) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  constexpr std::string_view kBefore = "FeatureExtractor";
  if (name.ends_with(kBefore))
    name.replace(name.size() - kBefore.size(), kBefore.size(), "ImageProcessor");
  return name;
}

const ProcessorClass& class_of(const json& settings, const std::string& where) {
  std::string name = string_member(settings, "image_processor_type", where);
  if (name.empty()) name = string_member(settings, "feature_extractor_type", where);
  std::vector<std::string> known;
  for (const auto& processor : processor_classes()) known.push_back(processor.name);
  VIADUCT_CHECK(ConfigError, !name.empty(),
                "{}: image_processor_type is missing; expected one of {}", where,
                fmt::join(known, ", "));
  const std::string plain = plain_name(name);
  for (const auto& processor : processor_classes()) {
    if (plain == processor.name) return processor;
  }
  const auto near = nearest_name(plain, known);
  fail<ConfigError>("{}: image_processor_type {} is not built; expected one of {}{}", where,
                    shown_name(name), fmt::join(known, ", "),
                    near ? fmt::format(" (nearest: {})", *near) : std::string());
}

/// A side in pixels.
int64_t side_of(const json& value, std::string_view name, const std::string& where) {
  const auto side = json_count(value);
  VIADUCT_CHECK(ConfigError, side && *side >= 1 && *side <= kLargestSide,
                "{}: {}={}, expected 1 to {} pixels", where, name, shown_name(value.dump()),
                kLargestSide);
  return *side;
}

/// `size` and `crop_size`: a number, or an object of height and width, or of shortest_edge.
struct Size {
  std::optional<int64_t> shortest_edge, height, width;
};
std::optional<Size> size_member(const json& settings, std::string_view name, bool square,
                                const std::string& where) {
  const json* value = find_member(settings, name);
  if (value == nullptr) return std::nullopt;
  Size size;
  if (value->is_number()) {
    const int64_t side = side_of(*value, name, where);
    if (!square) return Size{side, {}, {}};
    return Size{{}, side, side};
  }
  VIADUCT_CHECK(IoError, value->is_object(), "{}: {} is {}, expected an object or a number", where,
                name, value->type_name());
  for (const auto& [key, side] : value->items()) {
    if (side.is_null()) continue;
    const std::string path = fmt::format("{}.{}", name, shown_name(key));
    auto* place = key == "shortest_edge" ? &size.shortest_edge
                  : key == "height"      ? &size.height
                  : key == "width"       ? &size.width
                                         : nullptr;
    VIADUCT_CHECK(ConfigError, place != nullptr,
                  "{}: {} is not built; expected {}.height and {}.width, or {}.shortest_edge",
                  where, path, name, name, name);
    *place = side_of(side, path, where);
  }
  const bool sides = size.height && size.width && !size.shortest_edge,
             edge = size.shortest_edge && !size.height && !size.width;
  VIADUCT_CHECK(ConfigError, sides || edge,
                "{}: {}={}, expected height and width, or shortest_edge", where, name,
                shown_name(value->dump()));
  return size;
}

/// One number for all channels, or one for each.
void channels_member(const json& settings, std::string_view name, const std::string& where,
                     std::array<double, 3>& channels) {
  const json* value = find_member(settings, name);
  if (value == nullptr) return;
  const auto number = [&](const json& one) {
    VIADUCT_CHECK(IoError, one.is_number() && std::isfinite(one.get<double>()),
                  "{}: {} has {}, expected a number", where, name, shown_name(one.dump()));
    return one.get<double>();
  };
  if (!value->is_array()) {
    channels.fill(number(*value));
    return;
  }
  VIADUCT_CHECK(ConfigError, value->size() == channels.size(),
                "{}: {} has {} numbers, expected one for each of 3 channels", where, name,
                value->size());
  for (size_t i = 0; i < channels.size(); ++i) channels[i] = number((*value)[i]);
}

/// PIL's number of a filter.
void read_resample(const json& settings, const std::string& where, Resampling& resampling) {
  const json* value = find_member(settings, "resample");
  if (value == nullptr) return;
  const auto filter = json_count(*value);
  VIADUCT_CHECK(ConfigError, filter == 2 || filter == 3,
                "{}: resample={} is not built; expected 2 (bilinear) or 3 (bicubic)", where,
                shown_name(value->dump()));
  resampling = *filter == 2 ? Resampling::bilinear : Resampling::bicubic;
}

/// Steps that are asked for, and that no processor here has.
void check_other_steps(const json& settings, const std::string& where) {
  static constexpr std::array<std::string_view, 8> kBuilt = {
      "do_resize",      "do_center_crop", "do_rescale",        "do_normalize",
      "do_convert_rgb", "do_pad",         "default_to_square", "use_square_size"};
  for (const auto& [name, value] : settings.items()) {
    const bool built = std::ranges::find(kBuilt, name) != kBuilt.end();
    const bool asked = value.is_boolean() ? value.get<bool>() : !value.is_null();
    VIADUCT_CHECK(ConfigError, built || !name.starts_with("do_") || !asked,
                  "{}: {}={} is not built; expected false", where, shown_name(name),
                  shown_name(value.dump()));
  }
}

}  // namespace

ImageProcessor ImageProcessor::of_json(const json& settings, const std::string& where) {
  VIADUCT_CHECK(IoError, settings.is_object(), "{}: {}, expected an object", where,
                settings.type_name());
  const ProcessorClass& known = class_of(settings, where);
  ImageProcessorSettings result = known.defaults;
  result.type = known.name;
  check_other_steps(settings, where);
  const bool pad = bool_member(settings, "do_pad", where, false);
  result.pad_to_square = pad && result.type == "LlavaImageProcessor";
  VIADUCT_CHECK(ConfigError, !pad || result.pad_to_square,
                "{}: do_pad=true is not built for {}; expected false", where, result.type);
  result.resize = bool_member(settings, "do_resize", where, result.resize);
  const bool square = bool_member(settings, "default_to_square", where, known.square);
  if (const auto size = size_member(settings, "size", square, where)) {
    result.shortest_edge = size->shortest_edge;
    result.height = size->height.value_or(0);
    result.width = size->width.value_or(0);
  }
  if (bool_member(settings, "use_square_size", where, false) && result.shortest_edge) {
    result.height = result.width = *result.shortest_edge;
    result.shortest_edge.reset();
  }
  read_resample(settings, where, result.resampling);
  result.center_crop = bool_member(settings, "do_center_crop", where, result.center_crop);
  if (const auto crop = size_member(settings, "crop_size", true, where)) {
    VIADUCT_CHECK(ConfigError, crop->height.has_value(),
                  "{}: crop_size.shortest_edge, expected crop_size.height and crop_size.width",
                  where);
    result.crop_height = *crop->height;
    result.crop_width = *crop->width;
  }
  VIADUCT_CHECK(ConfigError, !result.center_crop || result.type != "Gemma3ImageProcessor",
                "{}: do_center_crop=true: {} has no such step; expected false", where, result.type);
  result.rescale = bool_member(settings, "do_rescale", where, result.rescale);
  if (const json* factor = find_member(settings, "rescale_factor")) {
    VIADUCT_CHECK(IoError, factor->is_number(), "{}: rescale_factor is {}, expected a number",
                  where, factor->type_name());
    result.rescale_factor = factor->get<double>();
  }
  result.normalize = bool_member(settings, "do_normalize", where, result.normalize);
  channels_member(settings, "image_mean", where, result.mean);
  channels_member(settings, "image_std", where, result.std);
  VIADUCT_CHECK(ConfigError,
                !result.normalize || std::ranges::find(result.std, 0.0) == result.std.end(),
                "{}: image_std has a 0, by which channels would be divided", where);
  return ImageProcessor(std::move(result), where);
}

std::optional<ImageProcessor> ImageProcessor::load(const std::filesystem::path& folder) {
  const auto processor_file = folder / "processor_config.json",
             file = folder / "preprocessor_config.json";
  if (const auto whole = read_json_object(processor_file)) {
    if (const json* settings = find_member(*whole, "image_processor"))
      return of_json(*settings, processor_file.string() + ": image_processor");
  }
  if (const auto settings = read_json_object(file)) return of_json(*settings, file.string());
  return std::nullopt;
}

}  // namespace viaduct
