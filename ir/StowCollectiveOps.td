// What the ranks of a step do together.
#ifndef STOW_COLLECTIVE_OPS_TD
#define STOW_COLLECTIVE_OPS_TD

include "ir/StowBase.td"

def Stow_AllReduceOp : Stow_Op<"all_reduce", [Stow_Full, Stow_OfTraining, Stow_HasFlops, Stow_Shares,
                                              Stow_HasGradient, Stow_NotRecomputable]> {
  let summary = "The sum of a value over all ranks";
  let description = [{
    `y = ((0 + x of rank 0) + x of rank 1) + ...`, the same bits on every rank, element by element of what is stored. All ranks run
    the same graph, and so the same reductions in the same order; none is left out or runs twice. Of the loss that all ranks' losses sum up to, the gradient
    of x is the all_reduce of that of y. C1: `ranks` is 2 or more; C2: x is of
    f32, and y of its type.
    ```mlir
    %y = stow.all_reduce %x {ranks = 2 : i64} : (tensor<16x10xf32>) -> tensor<16x10xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, I64Attr:$ranks);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

// A value in shards: N ranks have ceil(n / N) of its n elements each, in their order, as a vector; what the last ones have no element
// for is zero.
def Stow_ReduceScatterOp : Stow_Op<"reduce_scatter", [Stow_Full, Stow_OfTraining, Stow_WalksRows, Stow_HasFlops,
                                                      Stow_NotRecomputable]> {
  let summary = "This rank's shard of the sum of a value over all ranks";
  let description = [{
    `y = shard(all_reduce(x))`, the same bits. All ranks run it, as all_reduce. C1: `ranks` is 2 or more; C2: x is of f32 and y a vector of
    a shard of it.
    ```mlir
    %y = stow.reduce_scatter %x {ranks = 4 : i64} : (tensor<16x10xf32>) -> tensor<40xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, I64Attr:$ranks);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_ShardOp : Stow_Op<"shard", [Stow_Full, Stow_OfTraining, Stow_WalksRows, Stow_NotRecomputable]> {
  let summary = "This rank's shard of a value that all ranks have";
  let description = [{
    A copy of it; no rank needs another for that. C1: `ranks` is 2 or more; C2: x is of f32 and y a vector of a shard of it.
    ```mlir
    %y = stow.shard %x {ranks = 4 : i64} : (tensor<16x10xf32>) -> tensor<40xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, I64Attr:$ranks);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_AllGatherOp : Stow_Op<"all_gather", [Stow_UpdatesState, Stow_Full, Stow_OfTraining, Stow_Shares,
                                              Stow_NotRecomputable]> {
  let summary = "The new value of a parameter, put together of all ranks' shards";
  let description = [{
    y, which overwrites the parameter, is the shards of all ranks in their order. All ranks run it, as all_reduce. C1: `ranks` is 2 or
    more; C2: the parameter is of f32 and row-major, x a vector of a shard of it; C3: y has the parameter's type.
    ```mlir
    %w1 = stow.all_gather %x, %w {ranks = 4 : i64} : (tensor<40xf32>, tensor<16x10xf32>) -> tensor<16x10xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_FloatTensor:$parameter, I64Attr:$ranks);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_UnshardOp : Stow_Op<"unshard", [Stow_Full, Stow_WalksRows]> {
  let summary = "A value of which each rank has a shard, put together";
  let description = [{
    y is the shards of all ranks in their order. All ranks run it, as all_reduce, in graphs that train and that do not; it may run again, in
    all of them. C1: `ranks` is 2 or more; C2: y is of f32 and row-major, and x a vector of a shard of it.
    ```mlir
    %w = stow.unshard %x {ranks = 4 : i64} : (tensor<40xf32>) -> tensor<16x10xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, I64Attr:$ranks);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

// A collective with stow.started begins where it stands, on the network's lane, and has ended behind its one await: until then nothing else
// touches what it writes, and nothing writes what it reads. Collectives run on that lane one after the other, in the order of their starts.
class Stow_RanksAwaitOp<string mnemonic, list<Trait> traits = []>
    : Op<Stow_Dialect, mnemonic,
         !listconcat(traits,
                     [DeclareOpInterfaceMethods<Stow_CostInterface, ["getFlops", "getBytesMoved"]>,
                      Stow_PrecisionInterface, Stow_NotRecomputable, Stow_Full, Stow_OfTraining])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Stow_AwaitReduceOp : Stow_RanksAwaitOp<"await_reduce", [Stow_Shares]> {
  let summary = "Wait until a sum over all ranks, or a value put together of their shards, is there";
  let description = [{
    y is the bytes of `coming`, which are there. C1: `coming` is what a started all_reduce makes, and there are no sources, or a started
    reduce_scatter or unshard, and the source is its operand; C2: y has the type of `coming`.
    ```mlir
    %coming = stow.all_reduce %x {ranks = 2 : i64, stow.started} : (tensor<16x10xf32>) -> tensor<16x10xf32>
    %y = stow.await_reduce %coming : (tensor<16x10xf32>) -> tensor<16x10xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$coming, Variadic<Stow_FloatTensor>:$sources);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_AwaitGatherOp : Stow_RanksAwaitOp<"await_gather"> {
  let summary = "Wait until a parameter has been put together";
  let description = [{
    Nothing reads the parameter's new value before it. C1: `gathered` is what a started all_gather makes of `shard`.
    ```mlir
    stow.await_gather %w1, %x : (tensor<16x10xf32>, tensor<40xf32>) -> ()
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$gathered, Stow_FloatTensor:$shard);
}

#endif // STOW_COLLECTIVE_OPS_TD
