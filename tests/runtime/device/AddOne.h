// The kernel of the devices' tests, for the host and for GPUs: out[i] = in[i] + 1 over 64 bytes.
#pragma once

#include "runtime/format/DeviceCode.h"

#include <array>
#include <string>

namespace stow {

inline void addOne(int64_t, int64_t, char *const *arguments) {
  for (int i = 0; i < 64; ++i)
    arguments[1][i] = static_cast<char>(arguments[0][i] + 1);
}

/// The same for a GPU, as a program holds it: blocks of 64 threads, a byte each. `more` are further
/// instructions, which may use %rd1, where `out` is, and %h2.
inline std::string addOneCode(const std::string &more = "") {
  const std::string ptx = R"ptx(
.version 8.0
.target sm_80
.address_size 64

.visible .entry add_one(.param .u64 begin, .param .u64 end, .param .u64 in, .param .u64 out)
.reqntid 64, 1, 1
{
  .reg .b64 %rd<6>;
  .reg .b32 %r<3>;
  .reg .b16 %h<4>;
  ld.param.u64 %rd0, [in];
  ld.param.u64 %rd1, [out];
  mov.u32 %r0, %tid.x;
  cvt.u64.u32 %rd2, %r0;
  add.s64 %rd3, %rd0, %rd2;
  add.s64 %rd4, %rd1, %rd2;
  ld.global.u8 %h0, [%rd3];
  add.s16 %h1, %h0, 1;
  st.global.u8 [%rd4], %h1;
)ptx" + more + "  ret;\n}\n";
  return packDeviceCode(
      std::array{DeviceImage{DeviceImage::Kind::Ptx, 80, {ptx.data(), ptx.size() + 1}}});
}

} // namespace stow
