// The headers of the standard library that most rooms without MLIR need, and of JSON, whose operators compile a parser wherever they
// are seen; precompiled once (cmake/Stowage.cmake). Sources still include what they use: g++ builds without this file.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
