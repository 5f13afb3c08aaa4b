"""Prints a recurrent network of so many steps as a model: recurrence.py STEPS"""

import sys

steps = int(sys.argv[1])
print("module attributes {stow.form = \"model\"} {")
print(f"func.func @model(%x: tensor<8x{steps}x16xf32> {{stow.kind = #stow.kind<input>, stow.name = \"x\"}},")
for number, (name, shape) in enumerate((("w", "16x64"), ("u", "64x64"))):
    print(f"    %{name}: tensor<{shape}xf32> {{stow.init = dense<0.125> : tensor<{shape}xf32>, stow.kind = #stow.kind<parameter>, stow.name = \"{name}\"}}" + ("," if number == 0 else ")"))
print("    -> (tensor<8x64xf32> {stow.name = \"y\"}) attributes {stow.role = #stow.role<model>} {")
state = None
for t in range(steps):
    print(f"  %s{t} = stow.slice %x {{starts = array<i64: 0, {t}, 0>, sizes = array<i64: 8, 1, 16>}} : (tensor<8x{steps}x16xf32>) -> tensor<8x1x16xf32>")
    print(f"  %x{t} = stow.reshape %s{t} : (tensor<8x1x16xf32>) -> tensor<8x16xf32>")
    print(f"  %a{t} = stow.matmul %x{t}, %w {{transpose_a = false, transpose_b = false}} : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>")
    sum_of = f"%a{t}"
    if state:
        print(f"  %b{t} = stow.matmul {state}, %u {{transpose_a = false, transpose_b = false}} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>")
        print(f"  %c{t} = stow.add %a{t}, %b{t} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>")
        sum_of = f"%c{t}"
    print(f"  %h{t} = stow.tanh {sum_of} : (tensor<8x64xf32>) -> tensor<8x64xf32>")
    state = f"%h{t}"
print(f"  return {state} : tensor<8x64xf32>\n}}\n}}")
