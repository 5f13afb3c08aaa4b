// Small graphs whose gradients are checked against finite differences.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace stow::reference {

/// A graph in f64. Float arguments are differentiated; values lie in [low, high], all different and
/// none at a kink. Integer arguments take `integers`, in order.
struct GradientCase {
  std::string name;
  std::string arguments;
  std::string results;
  std::string body; ///< ops and the return
  double low = -2, high = 2;
  std::vector<double> integers = {};
  std::string saved = "auto";
};

const std::vector<GradientCase> &gradientCases();

/// How a failing case is named.
inline void PrintTo(const GradientCase &test, std::ostream *out) { *out << test.name; }

} // namespace stow::reference
