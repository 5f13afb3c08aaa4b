/* The C interface of a compiled model: `stowage compile MODEL --emit=shared -o libmodel.so`.
 *
 * The library trains and evaluates the one model it was compiled from, inside one arena that
 * stowage_create() allocates; a step allocates no tensor and no workspace.
 *
 *   stowage_model *model = NULL;
 *   if (stowage_create(NULL, &model) != STOWAGE_OK)
 *     fprintf(stderr, "%s\n", stowage_last_error());
 *   stowage_array inputs[2] = {{images, STOWAGE_F32, 4, shape}, {labels, STOWAGE_I64, 1, shape}};
 *   double loss;
 *   stowage_step(model, inputs, 2, &loss);
 *   stowage_save(model, "weights.safetensors");
 *   stowage_destroy(model);
 *
 * Arrays are dense and row-major (the last dimension varies fastest), whatever layout the arena
 * uses, and lie in memory of the host, wherever the arena is: every call copies, and no address in
 * the arena is handed out. Sizes are bytes unless their name says otherwise. The batch is fixed at compile time.
 *
 * Errors: a function that can fail returns a status; text for it lies in stowage_last_error() of
 * the calling thread. Nothing is thrown, nothing is printed, no signal handler is installed. After
 * a failure the model is as it was before the call, unless the function says otherwise.
 *
 * Ownership: what a function returns a pointer to belongs to the library, and lives as long as the
 * model (or the library, where no model is given). Arrays that are passed in are read or written
 * before the call returns and never kept.
 *
 * Threads: one model is used by one thread at a time; several models of one library, and several
 * libraries, live side by side, each model with an arena of its own. */
#ifndef STOWAGE_H
#define STOWAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a program built against an older header could misbehave. */
#define STOWAGE_ABI_VERSION 3

typedef enum stowage_status {
  STOWAGE_OK = 0,
  STOWAGE_BAD_INPUT = 1, /* the message names the place, what was expected and what was found */
  STOWAGE_INTERNAL = 3   /* a damaged library or a broken promise of the compiler */
} stowage_status;

/* Element types. The arena stores the first eight; the others are converted from and to. */
typedef enum stowage_dtype {
  STOWAGE_F64 = 0,
  STOWAGE_F32 = 1,
  STOWAGE_F16 = 2,
  STOWAGE_BF16 = 3,
  STOWAGE_I64 = 4,
  STOWAGE_I32 = 5,
  STOWAGE_U8 = 6,
  STOWAGE_BOOL = 7, /* one byte, 0 or 1 */
  STOWAGE_I16 = 8,
  STOWAGE_I8 = 9,
  STOWAGE_U64 = 10,
  STOWAGE_U32 = 11,
  STOWAGE_U16 = 12
} stowage_dtype;

/* The tensors of a model, in five numbered lists. */
typedef enum stowage_list {
  STOWAGE_STATE = 0,        /* parameters, trained or frozen, statistics, optimizer state */
  STOWAGE_STEP_INPUTS = 1,  /* what stowage_step() reads: the data inputs and the target */
  STOWAGE_EVAL_INPUTS = 2,  /* what stowage_eval() reads: the data inputs */
  STOWAGE_EVAL_OUTPUTS = 3, /* what stowage_eval() gives */
  STOWAGE_STEP_OUTPUTS = 4, /* what stowage_step() leaves: the loss, gradients of chosen inputs */
  STOWAGE_EVALUATED = 5     /* what the last stowage_eval() gave */
} stowage_list;

/* A row-major array of the caller. */
typedef struct stowage_array {
  const void *data;
  stowage_dtype dtype;
  int32_t rank;
  const int64_t *shape; /* `rank` numbers */
} stowage_array;

/* What one tensor of the model is. */
typedef struct stowage_tensor {
  const char *name; /* of the model file */
  const char
      *kind; /* "parameter", "frozen", "statistic", "optimizer"; "data", "target"; "output" */
  stowage_dtype dtype;
  int32_t rank;
  const int64_t *shape; /* logical; dimension 0 of inputs is the batch */
  int64_t bytes;        /* of the row-major elements: what reading and writing it takes */
  int32_t saved;        /* state that stowage_save() writes: 1, otherwise 0 */
} stowage_tensor;

/* What the library was compiled from. */
typedef struct stowage_program {
  const char *model;     /* the file's name */
  const char *loss;      /* as given to the compiler */
  const char *optimizer; /* as given to the compiler */
  int64_t batch;         /* samples per step, of this process */
  int64_t threads;       /* planned for; the most a model can use */
  int64_t arena_bytes;   /* what stowage_create() allocates */
  double learning_rate;  /* first value of a model's learning rate */
} stowage_program;

/* Settings of a model. `size` is sizeof(stowage_options) of the caller's header; fields that an
 * older header lacks are zero. */
typedef struct stowage_options {
  size_t size;
  uint64_t seed;   /* of initial values and dropout */
  int64_t threads; /* 0: as planned */
  int32_t poison;  /* not 0: fill buffers with NaN when they die, to find planning errors */
  /* Where parameters and statistics have their first values from, read while the model is created: a safetensors file, an index of
   * shards, or a folder of either, as other tools write them. NULL: from the library, or random. Adapters that it lacks, all of
   * them, start as they would without. */
  const char *weights;
  /* Further names of state, those of tied weights: lines of a name, a tab, and another one. May be NULL. */
  const char *aliases;
  /* The folder for what travels to slow memory, of a model compiled with --offload. NULL: that of the compilation. */
  const char *offload;
  /* Of a model compiled for GPUs: which one, by its driver's order. 0: the first. Refused by models for the host. */
  int64_t gpu;
  /* Of a model for several devices: how many seconds a rank waits for another before its call fails with that one's name, behind which no
   * collective call may follow. 0: 600; negative: without end. Refused by models for one device. */
  int64_t timeout;
} stowage_options;

/* What stowage_measure() finds over its samples. Sums of several calls may be added. */
typedef struct stowage_metrics {
  int64_t rows;    /* samples that count */
  int64_t targets; /* predictions that count: without ignored ones; without classes, values */
  int64_t correct; /* of them; -1 where the loss knows no right and wrong */
  double loss_sum; /* the mean loss is loss_sum / weight_sum */
  double weight_sum;
} stowage_metrics;

typedef struct stowage_model stowage_model;

/* STOWAGE_ABI_VERSION of the library. */
int32_t stowage_abi_version(void);

/* Why the last failed call of this thread failed; "" before the first. Valid until the next call
 * of this thread that fails. */
const char *stowage_last_error(void);

/* What the library was compiled from. */
stowage_status stowage_describe_program(stowage_program *out);

/* The memory plan as JSON (docs/plan-format.md), ended by a zero byte; NULL on failure. */
const char *stowage_plan_json(void);

/* Allocates the arena and gives the state its first values: those of the file, or random ones that
 * follow from the seed. `options` may be NULL. */
stowage_status stowage_create(const stowage_options *options, stowage_model **out);

/* Gives the arena back. `model` may be NULL. */
void stowage_destroy(stowage_model *model);

/* Several devices (--devices=N): N processes, started by an MPI launcher, train one model together; stowage_create() makes each of them one
 * rank, and the state of all starts as that of rank 0. Calls that say "collective" are made by all ranks, in the same order, and none returns
 * before all have come: stowage_create, stowage_step, stowage_reset, stowage_save (rank 0 writes), stowage_load and those here. Where one
 * rank fails alone, the others wait for it until its process ends. Of one device rank is 0, and the others change nothing. */

/* How many devices run a step together, at least 1, and which of them this process is. */
int64_t stowage_device_count(void);
int64_t stowage_rank(const stowage_model *model);

/* Collective: the `count` numbers of every rank, by rank: `all` has room for stowage_device_count() times as many. */
stowage_status stowage_gather(stowage_model *model, const double *own, int64_t count, double *all);

/* Collective: running statistics, which follow each rank's own batches, become those of rank 0, which are saved. Before an evaluation
 * in which every rank has a part. */
stowage_status stowage_share_statistics(stowage_model *model);

/* Collective: leaves the ranks, once, after the last model is destroyed and before a process ends that has not failed. A process that ends
 * without it has failed for its launcher, which ends all others. */
stowage_status stowage_leave(void);

/* The number of tensors in a list, and one of them by its position. */
int64_t stowage_count(const stowage_model *model, stowage_list list);
stowage_status stowage_describe(const stowage_model *model, stowage_list list, int64_t index,
                                stowage_tensor *out);

/* One training step: forward, loss, backward, update. `inputs` follow STOWAGE_STEP_INPUTS; their
 * elements are copied into the arena once, converted where the type differs. The loss is that of
 * the batch before the update. A loss that is not finite is no error. */
stowage_status stowage_step(stowage_model *model, const stowage_array *inputs, int64_t count,
                            double *loss);

/* The forward with running statistics and without dropout. `outputs` follow STOWAGE_EVAL_OUTPUTS,
 * each with room for the tensor's bytes, or NULL where it is not wanted. Does not change the state. Of
 * several shapes the batch runs in the smallest that holds it, and an output is, in the dimensions that follow those of the inputs, as
 * large as the batch: STOWAGE_EVALUATED has its sizes. */
stowage_status stowage_eval(stowage_model *model, const stowage_array *inputs, int64_t input_count,
                            void *const *outputs, int64_t output_count);

/* Loss and accuracy of the evaluation on any number of samples, computed from its outputs in double
 * precision as the executable prints them. `inputs` follow STOWAGE_STEP_INPUTS, all with the same
 * number of rows, at least 1. A loss that the model computes itself is that of whole batches: rows
 * that fill none are left out. Does not change the state. */
stowage_status stowage_measure(stowage_model *model, const stowage_array *inputs, int64_t count,
                               stowage_metrics *out);

/* Copies a tensor of STOWAGE_STEP_OUTPUTS out of the arena, in its dtype (`bytes` must be the
 * tensor's): the gradients that --input-gradients asked for. Only between a step and the next
 * evaluation, which uses the same memory. Of several shapes these tensors are those of the shape in which the last step ran
 * (stowage_step_shape): the gradient of an input that was padded is that of the padded one, and begins in each dimension with the
 * elements that were given. */
stowage_status stowage_read_step_output(const stowage_model *model, int64_t index, void *to,
                                        int64_t bytes);

/* Copies a tensor of STOWAGE_STATE out of the arena or into it, in its dtype (`bytes` must be the
 * tensor's), or from an array of another type and the same shape. */
stowage_status stowage_read_state(const stowage_model *model, int64_t index, void *to,
                                  int64_t bytes);
stowage_status stowage_write_state(stowage_model *model, int64_t index, const stowage_array *from);

/* The learning rate of the steps to come. */
double stowage_learning_rate(const stowage_model *model);
stowage_status stowage_set_learning_rate(stowage_model *model, double rate);

/* How many shapes a step has (--shapes), at least 1, and the one in which the last step ran: its position in "shapes" of the plan, the
 * largest first. A step takes the smallest that holds its batch: arrays smaller than STOWAGE_STEP_INPUTS, which are those of the
 * largest, are padded with labels that do not count, and zeros elsewhere. */
int64_t stowage_shape_count(void);
int64_t stowage_step_shape(const stowage_model *model);

/* Whether a batch of fewer samples than a shape has is filled up with samples that do not count: 1, otherwise 0. */
int32_t stowage_fills_batches(void);

/* Steps done since the state was initialized; part of the seed of dropout and, for optimizers that
 * correct a bias, of the update. */
int64_t stowage_step_count(const stowage_model *model);
stowage_status stowage_set_step_count(stowage_model *model, int64_t steps);

/* Gives the state its first values again, with another seed; no steps are done then. */
stowage_status stowage_reset(stowage_model *model, uint64_t seed);

/* Writes the state, step count, seed and learning rate as safetensors, in one step: the file is the
 * old or the new one, whatever happens. State of several devices is that of one, whole. An executable of the same model reads it. */
stowage_status stowage_save(const stowage_model *model, const char *path);

/* Reads a file that stowage_save() or an executable's --save wrote. `parameters_only` not 0 takes
 * parameters and statistics alone, also from files and folders of other tools, as `weights` of stowage_options does. */
stowage_status stowage_load(stowage_model *model, const char *path, int32_t parameters_only);

#ifdef __cplusplus
}
#endif

#endif
