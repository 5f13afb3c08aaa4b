/* Trains any compiled classifier on made-up data, through the C interface alone.
 *
 *   stowage compile models/digits_cnn.onnx --emit=shared -o libmodel.so --optimizer=adamw:lr=1e-3
 *   cc -I runtime/include runtime/examples/train.c -o train ./libmodel.so
 *   ./train weights.safetensors
 *
 * Each class has a random pattern; a sample is its class's pattern under noise. After 30 steps the
 * network tells unseen samples apart; the weights are saved, read into a second model, and that
 * model gives the same scores. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stowage.h"

static void require(stowage_status status, const char *what) {
  if (status == STOWAGE_OK)
    return;
  fprintf(stderr, "%s: %s\n", what, stowage_last_error());
  exit((int)status);
}

static void fail(const char *message) {
  fprintf(stderr, "%s\n", message);
  exit(1);
}

static void *allocate(int64_t count, size_t bytes) {
  void *memory = calloc((size_t)count, bytes);
  if (!memory)
    fail("no memory");
  return memory;
}

/* A number in [-1, 1). */
static float noise(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(*state >> 40) / 8388608.0f - 1.0f;
}

struct task {
  int64_t batch, features, classes;
  float *patterns; /* [classes, features] */
  float *samples;  /* [batch, features] */
  int64_t *labels; /* [batch] */
  uint64_t random;
};

static void draw_batch(struct task *task) {
  for (int64_t row = 0; row < task->batch; ++row) {
    int64_t label = (int64_t)((noise(&task->random) + 1) / 2 * (float)task->classes);
    task->labels[row] = label;
    for (int64_t i = 0; i < task->features; ++i)
      task->samples[row * task->features + i] =
          task->patterns[label * task->features + i] + 0.5f * noise(&task->random);
  }
}

static int64_t count_correct(const struct task *task, const float *scores) {
  int64_t correct = 0;
  for (int64_t row = 0; row < task->batch; ++row) {
    int64_t best = 0;
    for (int64_t i = 1; i < task->classes; ++i)
      if (scores[row * task->classes + i] > scores[row * task->classes + best])
        best = i;
    correct += best == task->labels[row];
  }
  return correct;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "weights.safetensors";
  if (stowage_abi_version() != STOWAGE_ABI_VERSION)
    fail("the library has another version of the interface");
  stowage_program program;
  require(stowage_describe_program(&program), "program");
  printf("%s: batch %lld, arena %lld bytes, %s\n", program.model, (long long)program.batch,
         (long long)program.arena_bytes, program.optimizer);

  stowage_options options = {.size = sizeof options, .seed = 7};
  stowage_model *model = NULL;
  require(stowage_create(&options, &model), "create");
  stowage_tensor input, target, output;
  if (stowage_count(model, STOWAGE_STEP_INPUTS) != 2 || stowage_count(model, STOWAGE_EVAL_OUTPUTS) != 1)
    fail("expected a model with one input and one output");
  require(stowage_describe(model, STOWAGE_STEP_INPUTS, 0, &input), "input");
  require(stowage_describe(model, STOWAGE_STEP_INPUTS, 1, &target), "target");
  require(stowage_describe(model, STOWAGE_EVAL_OUTPUTS, 0, &output), "output");

  struct task task = {program.batch, 1, output.shape[output.rank - 1], NULL, NULL, NULL, 1};
  for (int32_t i = 1; i < input.rank; ++i)
    task.features *= input.shape[i];
  task.patterns = allocate(task.classes * task.features, sizeof(float));
  task.samples = allocate(task.batch * task.features, sizeof(float));
  task.labels = allocate(task.batch, sizeof(int64_t));
  for (int64_t i = 0; i < task.classes * task.features; ++i)
    task.patterns[i] = noise(&task.random);
  stowage_array inputs[2] = {{task.samples, STOWAGE_F32, input.rank, input.shape},
                             {task.labels, STOWAGE_I64, target.rank, target.shape}};

  double loss = 0;
  for (int step = 1; step <= 30; ++step) {
    draw_batch(&task);
    require(stowage_step(model, inputs, 2, &loss), "step");
    if (step % 10 == 0)
      printf("step %lld: loss %.4f\n", (long long)stowage_step_count(model), loss);
  }

  draw_batch(&task);
  float *scores = allocate(output.bytes, 1), *again = allocate(output.bytes, 1);
  void *places[1] = {scores};
  require(stowage_eval(model, inputs, 1, places, 1), "eval");
  int64_t correct = count_correct(&task, scores);
  printf("%lld of %lld unseen samples are classified correctly\n", (long long)correct, (long long)task.batch);

  require(stowage_save(model, path), "save");
  stowage_model *second = NULL;
  require(stowage_create(NULL, &second), "create");
  require(stowage_load(second, path, 0), "load");
  places[0] = again;
  require(stowage_eval(second, inputs, 1, places, 1), "eval");
  if (memcmp(scores, again, (size_t)output.bytes) != 0 || stowage_step_count(second) != 30)
    fail("the second model differs");
  if (correct * 10 < task.batch * 9)
    fail("expected at least 90 % of the samples");

  stowage_destroy(second);
  stowage_destroy(model);
  free(again);
  free(scores);
  free(task.labels);
  free(task.samples);
  free(task.patterns);
  return 0;
}
