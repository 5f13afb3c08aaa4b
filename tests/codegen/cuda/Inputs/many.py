"""Prints a function with one sum of so many tensors: many.py COUNT"""

import sys

count = int(sys.argv[1])
names = [f"%x{i}" for i in range(count)]
print(f"func.func @many({', '.join(f'{name}: tensor<64xf32>' for name in names)}) {{")
print(f"  %y = stow.map {', '.join(names)} : ({', '.join(['tensor<64xf32>'] * count)}) -> tensor<64xf32> {{")
print(f"  ^bb0({', '.join(f'%p{i}: f32' for i in range(count))}):")
for i in range(1, count):
    print(f"    %s{i} = arith.addf {f'%s{i - 1}' if i > 1 else '%p0'}, %p{i} : f32")
print(f"    stow.yield %s{count - 1} : f32\n  }}\n  return\n}}")
