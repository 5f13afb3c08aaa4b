// Copies between the arena and slow memory, which run beside the other commands.
#ifndef STOW_OFFLOAD_OPS_TD
#define STOW_OFFLOAD_OPS_TD

include "ir/StowBase.td"

// A copy's bytes in slow memory, as a value: a tensor without elements, which takes no byte of the arena. It lives from
// the copy out to the last await of a copy in, and so do the bytes that it stands for. State that lies in slow memory
// (stow.slow_state on the argument) is a token as well; the one of the copy out that replaces it is returned.
def Stow_CopyToken : StaticShapeTensorOf<[I8]>;

// Copies and awaits are commands, but no arithmetic: none may run twice as a computation does, or be left out because nothing reads it. An evaluation
// keeps nothing for a backward and changes no state, so that only training copies out; both fetch frozen weights.
class Stow_CopyOp<string mnemonic, list<Trait> traits = []>
    : Op<Stow_Dialect, mnemonic,
         !listconcat(traits,
                     [DeclareOpInterfaceMethods<Stow_CostInterface, ["getFlops", "getBytesMoved"]>,
                      Stow_PrecisionInterface, Stow_NotRecomputable])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Stow_CopyOutOp : Stow_CopyOp<"copy_out", [Stow_OfTraining]> {
  let summary = "Start a copy into slow memory";
  let description = [{
    From here to its one await nothing writes x, which may be read. `stow.slow_offset` (stow-pack-buffers) says where its bytes lie in
    slow memory. C1: token is tensor<0xi8>.
    ```mlir
    %token = stow.copy_out %x : (tensor<8x64xf32>) -> tensor<0xi8>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x);
  let results = (outs Stow_CopyToken:$token);
}

def Stow_AwaitOutOp : Stow_CopyOp<"await_out", [Stow_OfTraining]> {
  let summary = "Wait until a copy into slow memory has ended";
  let description = [{
    What lies behind it may overwrite x. C1: token is that of a copy out of x.
    ```mlir
    stow.await_out %token, %x : (tensor<0xi8>, tensor<8x64xf32>) -> ()
    ```
  }];
  let arguments = (ins Stow_CopyToken:$token, Stow_Tensor:$x);
}

def Stow_CopyInOp : Stow_CopyOp<"copy_in"> {
  let summary = "Start a copy from slow memory";
  let description = [{
    From here to its one await nothing reads or writes `coming`. It starts behind the end of the copy out that made the token. C1: the
    token is that of a copy out of a tensor of this type, or of state of this type.
    ```mlir
    %coming = stow.copy_in %token : (tensor<0xi8>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Stow_CopyToken:$token);
  let results = (outs Stow_Tensor:$coming);
}

def Stow_AwaitInOp : Stow_CopyOp<"await_in", [Stow_Shares]> {
  let summary = "Wait until a copy from slow memory has ended";
  let description = [{
    y is the bytes of `coming`, which have come. C1: `coming` is a copy in from the token, y of its type.
    ```mlir
    %y = stow.await_in %token, %coming : (tensor<0xi8>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Stow_CopyToken:$token, Stow_Tensor:$coming);
  let results = (outs Stow_Tensor:$y);
}

#endif // STOW_OFFLOAD_OPS_TD
