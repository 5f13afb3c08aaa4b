#ifndef STOW_MEMORY_PASSES_TD
#define STOW_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def SendStatesPass : Pass<"stow-send-states", "::mlir::ModuleOp"> {
  let summary = "Let the optimizer's state and weights lie in slow memory";
  let description = [{
    What: of the `optimizer` arguments of a block or more that one op alone reads and updates, of the `frozen` arguments of
    a block or more, and of such `parameter` arguments that one op updates in place behind all other readers, whichever `kinds` names, the largest
    first, parameters last, those that make up `percent` of the bytes of all become tokens with `stow.slow_state`, the type that they had, in all
    graphs. For an update a copy in right before the op brings the state, and a copy out right behind it sends its new value, whose token is returned;
    both are awaited at once. A weight is fetched in front of its first reader, and views of it stand where they are read; a schedule may fetch it
    again, for as long as nothing has been written to its place.

    Requires: the step form, fused, with layouts and workspaces.
    Ensures: the same.

    ```mlir
    // %m is of kind optimizer
    %w1, %m1 = stow.map %w, %dw, %m {updates = array<i64: 0, 0, 1, 2>} ...
    // becomes, with %m : tensor<0xi8> {stow.slow_state = tensor<64x64xf32>}
    %c = stow.copy_in %m : (tensor<0xi8>) -> tensor<64x64xf32>
    %n = stow.await_in %m, %c : (tensor<0xi8>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %w1, %m1 = stow.map %w, %dw, %n {updates = array<i64: 0, 0, 1, 2>} ...
    %t = stow.copy_out %m1 : (tensor<64x64xf32>) -> tensor<0xi8>
    stow.await_out %t, %m1 : (tensor<0xi8>, tensor<64x64xf32>) -> ()
    ```
  }];
  let options = [
    Option<"percent", "percent", "int64_t", "100", "Of the bytes of all such state, so much travels.">,
    Option<"kinds", "kinds", "std::string", "\"optimizer\"", "What travels: optimizer, parameters, frozen or all.">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def BindStatePass : Pass<"stow-bind-state", "::mlir::ModuleOp"> {
  let summary = "Make every new state value overwrite the old one";
  let description = [{
    A result marked `stow.state` must end up where the state argument of that name lies. A map that
    reads the argument gets an `updates` pair when nothing reads the old value later; otherwise a
    copying map is inserted behind the last reader.

    Requires: the step form, fused, with layouts and workspaces.
    Ensures: the ordered form, in program order: every state result is produced by an op that updates
    the state argument, and no op reads the old value after it.

    ```mlir
    %r = stow.map %running, %batch : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> { ... }
    // becomes
    %r = stow.map %running, %batch {updates = array<i64: 0, 0>} : ...
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def PlanWorkspacesPass : Pass<"stow-plan-workspaces", "::mlir::ModuleOp"> {
  let summary = "Write down the scratch memory of every library call";
  let description = [{
    Marks the ops that the target runs as library calls with `stow.library_call`, asks it for the
    scratch bytes of each at the planned thread count and records them as `stow.workspace`; zero is
    left out. What a library call may take from the heap beside its
    workspace is recorded once, the largest, as `stow.library_heap_bytes` on the module.
    Calls for which the library has nothing but reference code, some hundred times slower than its
    other code, are marked `stow.reference`.
    Where the target offers several ways to run a call, `stow.implementations` lists those worth
    having, each with less scratch and more time than the one before it, and `stow.implementation`
    is the number of the one taken: the first in the training step, the last in other graphs.

    Requires: the step form with layouts.
    Ensures: every library call is marked, and carries `stow.workspace` where it needs scratch.

    ```mlir
    %dw = stow.conv2d_grad_weight %x, %dy {..., stow.library_call, stow.workspace = 159744 : i64}
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def PlaceInsidePass : Pass<"stow-place-inside", "::mlir::ModuleOp"> {
  let summary = "Produce the inputs of a concat inside its result, read slices where they lie";
  let description = [{
    An input of a concat is produced where it belongs in the result, so that it exists once and the
    concat copies nothing; a slice becomes a view of its operand. Both get types with gaps where they
    are not contiguous there, and so do reshapes of them. An input stays outside when it is an argument, a
    slice that is a view, an update of state, an input of the concat a second time or of another concat already, or is laid out in
    another order; when the target says that an op which makes or reads it takes no such parts; and when the
    result, which then lives from its first input on, would raise the peak of live bytes: then the
    input produced first is left out. Concats of concats nest. The peak is that of the order at hand
    with everything copied and shared in place; marks of an earlier run are dropped first. Where that leaves
    more live bytes than the order was made for, it is done again without what would raise them where
    there are more than that, and the one that leaves fewer stays.

    Requires: the ordered form; order, recomputation and layouts final.
    Ensures: `stow.inside` lists the inputs of concats that need no copy and the results of slices that
    are views; types say how the parts lie; live bytes have no higher peak than before.

    ```mlir
    %a = stow.map %p : ... -> tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1 of 1:96">>
    %b = stow.map %q : ... -> tensor<8x32x7x7xf32, #stow.layout<"0,2,3,1 of 1:96">>
    %y = stow.concat %a, %b {axis = 1 : i64, stow.inside = array<i64: 0, 1>} : ...
    ```
  }];
  let options = [Option<"wantedLive", "wanted-live", "int64_t", "std::numeric_limits<int64_t>::max()",
                        "live bytes of the step's training graph that its order was made for">];
  let constructor = "nullptr"; // made by createPlaceInsidePass: it asks a target
  let dependentDialects = ["::stow::StowDialect"];
}

def ShareInPlacePass : Pass<"stow-share-in-place", "::mlir::ModuleOp"> {
  let summary = "Let results overwrite operands that die";
  let description = [{
    Where an op allows it and an operand is read for the last time, the result takes its storage.
    Views count as the storage they look at.

    Requires: the ordered form; order, recomputation and layouts final.
    Ensures: `stow.in_place` lists pairs of result and operand; no op reads an overwritten value.

    ```mlir
    %dx = stow.map %dy, %y {stow.in_place = array<i64: 0, 0>} : ...
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def PackBuffersPass : Pass<"stow-pack-buffers", "::mlir::ModuleOp"> {
  let summary = "Give every buffer its offset in the arena";
  let description = [{
    State lies at the bottom of the arena, at the same offsets in all graphs. Above it each graph
    packs its own values and workspaces by lifetime (passes/solvers/pack); the arena is as high as
    the highest graph.

    Requires: the ordered form with in-place marks and workspaces.
    Ensures: the placed form: `stow.offsets` on every op that launches (one per result),
    `stow.workspace_offset` where there is scratch, `stow.offset` on every argument, and on the module
    `stow.arena_bytes`, `stow.persistent_bytes`, `stow.lower_bound_bytes`, `stow.alignment`, and
    `stow.workspace_alignment` where that is larger.

    ```mlir
    %y = stow.matmul %x, %w {stow.offsets = array<i64: 4096>} : ...
    ```
  }];
  let options = [Option<"alignment", "alignment", "int64_t", "64", "alignment of buffers in bytes">,
                 Option<"workspaceAlignment", "workspace-alignment", "int64_t", "0",
                        "that of workspaces, a multiple of the former; 0: the same">,
                 Option<"work", "work", "int64_t", "2000000000",
                        "elementary steps that packing may take, 1e8 to 1e9 a second">,
                 Option<"enough", "enough", "int64_t", "0",
                        "bytes of the arena below which packing looks no further">];
  let dependentDialects = ["::stow::StowDialect"];
}

def GatherUpdatesPass : Pass<"stow-gather-updates", "::mlir::ModuleOp"> {
  let summary = "Run small updates of state in one launch";
  let description = [{
    For devices on which a launch takes longer than a small tensor: moves small maps that write nothing but
    state, of one body each, behind one another and marks all but the first as running in its launch. A map
    waits only as long as no launch in between writes what it reads or touches what it writes, at the
    offsets as they are: every byte stays where it is, and gradients that wait take nothing that anything
    else needs. Tensors count as small up to 65,536 elements, which are too few blocks to keep half of a
    large chip busy. Where the live bytes rise, the lower bounds rise to them: no placement of
    the values as they live now takes less.

    Requires: the placed form.
    Ensures: `stow.together` on the maps that share the launch of the launching op before them; no op of a
    launch touches what another one writes.

    ```mlir
    %w1 = stow.map %w, %dw {stow.offsets = array<i64: 0>, updates = array<i64: 0, 0>} : ...
    %b1 = stow.map %b, %db {stow.offsets = array<i64: 64>, stow.together, updates = array<i64: 0, 0>} : ...
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def FuseBiasGradientPass : Pass<"stow-fuse-bias-gradient", "::mlir::ModuleOp"> {
  let summary = "Sum rows of a factor in the product that contracts over them";
  let description = [{
    What: a bias's gradient is the sum over rows of what the product for the weight's gradient contracts over
    its rows. Where the target's library makes both in one pass over that factor (`Target::sumsRows`), the
    stow.reduce_sum moves behind the product and runs in its launch, without scratch of its own; what reads
    the sum in front of the product moves behind it. That is done only where nothing on the way touches what
    it touches, at the offsets as they are: every byte stays where it is. Where the live bytes rise, the lower
    bounds rise to them.

    Requires: the placed form.
    Ensures: `stow.together` on the sums that run in the launch of the product before them.

    ```mlir
    %db = stow.reduce_sum %dy {axes = array<i64: 0>, keepdims = false, ...} : ...
    %dw = stow.matmul %x, %dy {transpose_a = true, transpose_b = false, ...} : ...
    // becomes
    %dw = stow.matmul %x, %dy {transpose_a = true, transpose_b = false, ...} : ...
    %db = stow.reduce_sum %dy {axes = array<i64: 0>, keepdims = false, stow.together, ...} : ...
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def PlaceNextInputsPass : Pass<"stow-place-next-inputs", "::mlir::ModuleOp"> {
  let summary = "Find room in the arena for the next batch while a step still runs";
  let description = [{
    For devices that copy beside their commands: gives every input of a step's graph that is fed from the data
    a second place, for what it reads next. The inputs' own places do not serve, since a model's first layer
    reads them for its weights' gradient, one of the last commands. But behind its peak a step empties the arena;
    the places are such that nothing lives there from some command on, the earliest with room for all of them, and
    none of them is a place of an input, so that they can be brought there one after the other. Nothing else moves and the
    arena stays as it is; where there is no room even behind the last command but one, or where the batch is
    less than 256 KiB, which takes longer to bring twice than to wait for, nothing is placed.

    Requires: the placed form, launches gathered.
    Ensures: `stow.next_offset` on these arguments and `stow.next_inputs` on the op from which on a device may
    write there, or neither.

    ```mlir
    func.func @train(%x: tensor<512x128xf32> {stow.offset = 0 : i64, stow.next_offset = 524288 : i64}, ...) {
      ...
      %dw = stow.matmul %h, %dy {stow.next_inputs, stow.offsets = array<i64: 262144>} : ...
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_MEMORY_PASSES_TD
