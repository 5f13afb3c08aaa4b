#include "tests/gpu/execute/Type.h"

namespace stow::sim {

struct TypeInfo {
  const char *name;
  unsigned bytes;
};

static const TypeInfo kTypes[] = {
    {"", 0},      {"pred", 0},  {"b8", 1},    {"u8", 1},     {"s8", 1},   {"b16", 2}, {"u16", 2},
    {"s16", 2},   {"f16", 2},   {"bf16", 2},  {"b32", 4},    {"u32", 4},  {"s32", 4}, {"f32", 4},
    {"u16x2", 4}, {"s16x2", 4}, {"f16x2", 4}, {"bf16x2", 4}, {"tf32", 4}, {"b64", 8}, {"u64", 8},
    {"s64", 8},   {"f64", 8},   {"f32x2", 8}, {"b128", 16}};

Type typeNamed(const std::string &name) {
  for (unsigned i = 1; i < std::size(kTypes); ++i)
    if (name == kTypes[i].name)
      return static_cast<Type>(i);
  return Type::None;
}

const char *nameOf(Type type) { return kTypes[static_cast<unsigned>(type)].name; }

unsigned bytesOf(Type type) { return kTypes[static_cast<unsigned>(type)].bytes; }

bool isSignedType(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64;
}

bool isFloatType(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64 ||
         type == Type::F16x2 || type == Type::BF16x2 || type == Type::TF32 || type == Type::F32x2;
}

bool isHalfPair(Type type) { return type == Type::F16x2 || type == Type::BF16x2; }

} // namespace stow::sim
