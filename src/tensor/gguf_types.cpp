#include "tensor/gguf_types.h"

#include <iterator>

namespace viaduct {
namespace {

using Type = GgufTensorType;

constexpr GgufType kTypes[] = {
    {Type::f32, "F32", 1, 4, DType::f32},
    {Type::f16, "F16", 1, 2, DType::f16},
    {Type::bf16, "BF16", 1, 2, DType::bf16},
    {Type::f64, "F64", 1, 8, DType::f64},
    {Type::q8_0, "Q8_0", 32, 34},
    {Type::q4_0, "Q4_0", 32, 18},
    {Type::q4_1, "Q4_1", 32, 20},
    {Type::q5_0, "Q5_0", 32, 22},
    {Type::q5_1, "Q5_1", 32, 24},
    {Type::q2_k, "Q2_K", 256, 84},
    {Type::q3_k, "Q3_K", 256, 110},
    {Type::q4_k, "Q4_K", 256, 144},
    {Type::q5_k, "Q5_K", 256, 176},
    {Type::q6_k, "Q6_K", 256, 210},
    {Type::mxfp4, "MXFP4", 32, 17},
};

struct Unread {
  uint32_t number;
  std::string_view name;
};
constexpr Unread kUnread[] = {
    {4, "Q4_2"},    {5, "Q4_3"},     {9, "Q8_1"},      {15, "Q8_K"},     {16, "IQ2_XXS"},
    {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},    {20, "IQ4_NL"},   {21, "IQ3_S"},
    {22, "IQ2_S"},  {23, "IQ4_XS"},  {24, "I8"},       {25, "I16"},      {26, "I32"},
    {27, "I64"},    {29, "IQ1_M"},   {31, "Q4_0_4_4"}, {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"},
    {34, "TQ1_0"},  {35, "TQ2_0"},   {40, "NVFP4"},    {41, "Q1_0"},
};

}  // namespace

const GgufType* find_gguf_type(uint32_t number) {
  for (const GgufType& known : kTypes)
    if (static_cast<uint32_t>(known.type) == number) return &known;
  return nullptr;
}

const GgufType& gguf_type(GgufTensorType type) {
  const GgufType* found = find_gguf_type(static_cast<uint32_t>(type));
  return found != nullptr ? *found : kTypes[0];
}

std::string_view unread_gguf_type(uint32_t number) {
  for (const Unread& known : kUnread)
    if (known.number == number) return known.name;
  return "";
}

std::string gguf_type_names() {
  std::string names;
  for (const GgufType& known : kTypes) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

std::string_view gguf_type_name(GgufTensorType type) {
  return gguf_type(type).name;
}

int64_t gguf_bytes(GgufTensorType type, int64_t elements) {
  const GgufType& known = gguf_type(type);
  return elements / known.block * known.bytes;
}

}  // namespace viaduct
